"""The JSON schemas in ``docs/schema``, held against what the package writes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

FOLDER = Path(__file__).parents[1] / "docs" / "schema"


def assert_valid(data: Any, schema: str) -> None:
    """Data fits a schema, and no field of it is missing there.

    Args:
        data: as JSON gives it back.
        schema: name of the file, such as ``verdict-1``.
    """
    _validator(schema).validate(data)


@cache
def _validator(schema: str) -> Any:
    content = json.loads((FOLDER / f"{schema}.json").read_text("utf-8"))
    jsonschema_rs.meta.validate(content)
    return jsonschema_rs.Draft202012Validator(_closed(content))


def _closed(schema: Any) -> Any:
    """The same schema, where each object has only the properties that are listed."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(value) for name, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        closed["additionalProperties"] = False
    return closed
