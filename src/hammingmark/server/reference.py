"""The API documentation for people: the OpenAPI document as a page, without a script."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hammingmark.server.config import ServerConfig
from hammingmark.server.examples import API_KEY, examples

Json = Mapping[str, Any]

_TAGS = {
    "writing": "Writing marked text",
    "judging": "Judging texts",
    "operation": "Operation",
}
_LIMITS = (
    "tokens", "choices", "body_bytes", "texts", "text_characters", "requests_per_minute",
    "texts_per_minute", "texts_per_day", "near_copies", "request_timeout",
)  # fmt: skip
_BOUNDS = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", "characters"),
    ("minItems", "maxItems", "items"),
)
_SCHEMAS = "#/components/schemas/"
_PAGE = """<!doctype html>
<html lang="en-GB">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <meta name="referrer" content="no-referrer">
  <title>API documentation – HammingMark</title>
  <link rel="icon" href="web/icon.svg">
  <link rel="stylesheet" href="web/style.css">
  <link rel="stylesheet" href="web/docs.css">
</head>
<body>
  <a class="skip-link" href="#main">Skip to the content</a>
  <header class="page-header">
    <div>
      <h1>API documentation</h1>
      <p class="tagline">{summary} Version {version}.{operator}</p>
    </div>
    <nav class="page-links" aria-label="Service">
      <a href="./">Judge a text</a>
      <a href="openapi.json">OpenAPI document</a>
    </nav>
  </header>
  <main id="main" tabindex="-1">
{content}
  </main>
</body>
</html>
"""


def reference(document: Json, config: ServerConfig, *, root: str) -> str:
    """The page with the API documentation.

    Args:
        document: the OpenAPI document.
        config: the settings of the service.
        root: the URL of the service, for the examples.
    """
    operations = [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    groups = {tag: [each for each in operations if tag in each[2].get("tags", ())] for tag in _TAGS}
    schemas = document["components"]["schemas"]
    content = [_introduction(config, root), _contents(groups)]
    for tag, members in groups.items():
        content.append(f'<h2 id="{tag}">{_TAGS[tag]}</h2>')
        content += [_operation(*each, schemas, config=config, root=root) for each in members]
    content.append('<h2 id="objects">Objects in requests and answers</h2>')
    bodies = {
        _name_of(operation["requestBody"]["content"]["application/json"]["schema"])
        for _, _, operation in operations
        if "requestBody" in operation
    }
    content += [_schema(name, schemas[name]) for name in sorted(schemas.keys() - bodies)]
    info, name = document["info"], config.operator.name
    return _PAGE.format(
        summary=_text(info["summary"]),
        version=_text(info["version"]),
        operator=f" Run by {_text(name)}." if name else "",
        content="\n".join(content),
    )


def _introduction(config: ServerConfig, root: str) -> str:
    access = (
        "Requests need no API key."
        if config.api_keys is None
        else "Each request needs an API key from the operator, in the header "
        f"<code>Authorization: Bearer …</code>; the examples take it from <code>{API_KEY}</code>."
    )
    limits = config.limits
    rows = [
        (field.description or "", getattr(limits, name))
        for name, field in type(limits).model_fields.items()
        if name in _LIMITS and getattr(limits, name) is not None
    ]
    listed = "".join(
        f"<div><dt>{_text(meaning)}</dt><dd>{_number(value)}</dd></div>" for meaning, value in rows
    )
    return (
        f"<p>The interface is at <code>{_text(root)}/v1</code>: that of OpenAI, with the field "
        "<code>watermark</code>, and a detector. Bodies are JSON, with the header "
        f"<code>Content-Type: application/json</code>. {access} No text is stored.</p>"
        "<p>An error has a status from 400 and OpenAI's form: <code>"
        '{"error": {"message": "…", "type": "…", "param": null, "code": null}}</code>. '
        "The header <code>X-Request-Id</code> names a request in the log of the service.</p>"
        f'<details><summary>Limits of this service</summary><dl class="figures">{listed}</dl>'
        "</details>"
    )


def _contents(groups: Mapping[str, list[tuple[str, str, Json]]]) -> str:
    items = "".join(
        f'<li><a href="#{tag}">{_TAGS[tag]}</a><ul>'
        + "".join(
            f'<li><a href="#{_anchor(method, path)}"><code>{method.upper()} {_text(path)}</code>'
            f"</a> {_text(operation['summary'])}</li>"
            for method, path, operation in members
        )
        + "</ul></li>"
        for tag, members in groups.items()
    )
    items += '<li><a href="#objects">Objects in requests and answers</a></li>'
    return f'<nav class="contents" aria-label="Contents"><ul>{items}</ul></nav>'


def _operation(
    method: str,
    path: str,
    operation: Json,
    schemas: Mapping[str, Json],
    *,
    config: ServerConfig,
    root: str,
) -> str:
    anchor = _anchor(method, path)
    parts = [
        f'<section class="operation" id="{anchor}" aria-labelledby="{anchor}-title">',
        f'<h3 id="{anchor}-title"><code>{method.upper()} {_text(path)}</code> '
        f"{_text(operation['summary'])}</h3>",
        _paragraphs(operation.get("description", "")),
    ]
    if parameters := operation.get("parameters"):
        fields = {each["name"]: each["schema"] | each for each in parameters}
        parts.append(f"<h4>Parameters of the path</h4>{_fields(fields, required=list(fields))}")
    if body := operation.get("requestBody"):
        schema = schemas[_name_of(body["content"]["application/json"]["schema"])]
        listed = _fields(schema["properties"], required=schema.get("required", []))
        extra = "<p>Other fields are passed on to an upstream.</p>"
        parts.append(f"<h4>Fields of the body</h4>{listed}")
        parts.append(extra if schema.get("additionalProperties") else "")
    responses = dict(operation["responses"])
    parts.append(_response(responses.pop("200")))
    errors = "".join(
        f"<div><dt>{status}</dt><dd>{_words(response['description'])}</dd></div>"
        for status, response in responses.items()
    )
    if errors:
        parts.append(
            f'<details><summary>Errors</summary><dl class="errors">{errors}</dl></details>'
        )
    shown = examples(
        path, root=root, model=config.model_name, has_api_keys=config.api_keys is not None
    )
    for title, code in shown:
        kind = "shell" if title == "Shell" else "python"
        parts.append(
            f'<figure><figcaption>{title}</figcaption><pre tabindex="0">'
            f'<code class="{kind}">{_text(code)}</code></pre></figure>'
        )
    return "\n".join([*parts, "</section>"])


def _response(response: Json) -> str:
    """What a successful request gets."""
    parts = []
    for kind, content in response.get("content", {}).items():
        schema = content.get("schema", {})
        if "$ref" in schema:
            parts.append(f"{_type(schema)} as <code>{_text(kind)}</code>")
        elif "description" in schema:
            parts.append(f"<code>{_text(kind)}</code>: {_words(schema['description'])}")
    listed = "; or ".join(parts)
    said = f"<h4>Answer</h4><p>{_words(response['description'])} {listed}{'.' * bool(listed)}</p>"
    headers = "".join(
        f"<div><dt><code>{_text(name)}</code></dt><dd>{_words(header['description'])}</dd></div>"
        for name, header in response.get("headers", {}).items()
    )
    if headers:
        said += f'<details><summary>Headers</summary><dl class="errors">{headers}</dl></details>'
    return said


def _schema(name: str, schema: Json) -> str:
    anchor = f"object-{name}"
    listed = _fields(schema["properties"], required=())
    return (
        f'<section class="object" id="{anchor}" aria-labelledby="{anchor}-title">'
        f'<h3 id="{anchor}-title"><code>{_text(name)}</code></h3>'
        f"{_paragraphs(schema.get('description', ''))}{listed}</section>"
    )


def _fields(fields: Mapping[str, Json], *, required: Sequence[str]) -> str:
    rows = "".join(
        f"<div><dt><code>{_text(name)}</code>"
        f"{' <strong>required</strong>' if name in required else ''} "
        f'<span class="hint">{_type(field)}{_default(field)}</span></dt>'
        f"<dd>{_words(field.get('description', ''))}</dd></div>"
        for name, field in sorted(fields.items(), key=lambda item: item[0] not in required)
    )
    return f'<dl class="fields">{rows}</dl>'


def _type(schema: Json) -> str:
    """The type of a value and its limits, as HTML."""
    if "$ref" in schema:
        name = _name_of(schema)
        return f'<a href="#object-{_text(name)}"><code>{_text(name)}</code></a>'
    if members := schema.get("anyOf"):
        return " or ".join(map(_type, members))
    if "const" in schema:
        return f"<code>{_text(_json(schema['const']))}</code>"
    if "enum" in schema:
        return " or ".join(f"<code>{_text(_json(each))}</code>" for each in schema["enum"])
    kind = schema.get("type", "any value")
    if kind == "array":
        said = f"list of {_type(schema.get('items', {}))}"
    elif kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        said = f"object of {_type(schema['additionalProperties'])}"
    else:
        said = _text(kind)
    bounds = ", ".join(filter(None, (_range(schema, *names) for names in _BOUNDS)))
    return f"{said} ({bounds})" if bounds else said


def _range(schema: Json, least: str, most: str, unit: str) -> str:
    """The bounds of a value in words; empty without bounds."""
    low, high = schema.get(least), schema.get(most)
    if low is not None and high is not None:
        return f"{_number(low)} to {_number(high)} {unit}".strip()
    bounds = [("at least", low), ("at most", high)]
    if not unit:
        bounds += [
            ("above", schema.get("exclusiveMinimum")),
            ("below", schema.get("exclusiveMaximum")),
        ]
    return ", ".join(
        f"{words} {_number(bound)} {unit}".strip() for words, bound in bounds if bound is not None
    )


def _name_of(reference: Json) -> str:
    return str(reference["$ref"]).removeprefix(_SCHEMAS)


def _default(field: Json) -> str:
    default = field.get("default")
    return "" if default is None else f"; by default <code>{_text(_json(default))}</code>"


def _json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def _anchor(method: str, path: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", f"{method}{path}".lower()).strip("-")


def _paragraphs(text: str) -> str:
    parts: Iterator[str] = (part for part in text.split("\n\n") if part.strip())
    return "".join(f"<p>{_words(part)}</p>" for part in parts)


def _words(text: str) -> str:
    """A description, with words in backticks as code."""
    return re.sub(r"``?([^`]+)``?", r"<code>\1</code>", _text(text))


def _text(text: str) -> str:
    return html.escape(str(text))
