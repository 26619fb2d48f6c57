"""Examples of requests for the API documentation, for a shell and for Python."""

from __future__ import annotations

import json
import shlex
from string import Template
from typing import Any

API_KEY = "HAMMINGMARK_API_KEY"
"""The environment variable from which the examples take the API key."""

_TEXT = (
    "The council met on Tuesday to talk about the bridge. Nobody could say what it would cost. "
    "A second meeting was called for the end of the month. The ferry will run until then. "
    "Shops near the river hope for a quick decision."
)
_QUESTION = "Why does it rain?"
_MESSAGES = [{"role": "user", "content": _QUESTION}]
_OPENING = "It had been raining since noon."

_OPENAI = """\
import openai

client = openai.OpenAI(base_url="$root/v1", api_key=$key)
"""
_CHAT = """\
answer = client.chat.completions.create(
    model="$model",
    messages=[{"role": "user", "content": "Why does it rain?"}],
)
print(answer.choices[0].message.content)
print(answer.model_extra["watermark"])
"""
_STREAM = """\
stream = client.chat.completions.create(
    model="$model",
    messages=[{"role": "user", "content": "Why does it rain?"}],
    stream=True,
)
for chunk in stream:
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)
    if "watermark" in (chunk.model_extra or {}):
        print("\\n", chunk.model_extra["watermark"])
"""
_COMPLETION = """\
answer = client.completions.create(model="$model", prompt="It had been raining since noon.")
print(answer.choices[0].text)
print(answer.model_extra["watermark"])
"""
_RESPONSE = """\
answer = client.responses.create(model="$model", input="Why does it rain?")
print(answer.output_text)
print(answer.model_extra["watermark"])
"""
_MODELS = """\
for model in client.models.list():
    print(model.id)
"""
_DETECT = """\
import requests

text = (
    "The council met on Tuesday to talk about the bridge. Nobody could say what it would cost. "
    "A second meeting was called for the end of the month. The ferry will run until then. "
    "Shops near the river hope for a quick decision."
)
answer = requests.post(
    "$root/v1/watermark/detect",
    json={"text": text, "level": 0.01},$headers
)
answer.raise_for_status()
result = answer.json()["results"][0]
print(result["verdict"], result["reason"])
"""
_REPORT = """\
import pathlib

import requests

answer = requests.post(
    "$root/v1/watermark/report",
    json={"text": "The council met on Tuesday. Nobody knew what the bridge would cost."},$headers
)
answer.raise_for_status()
pathlib.Path("report.html").write_text(answer.json()["html"], "utf-8")
print(answer.json()["report"]["sentences"])
"""
_GET = """\
import requests

answer = requests.get(
    "$root$path",$headers
)
print(answer.text)
"""

_BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": _MESSAGES},
    "/v1/completions": {"prompt": _OPENING},
    "/v1/responses": {"input": _QUESTION},
    "/v1/watermark/detect": {"text": _TEXT, "level": 0.01},
    "/v1/watermark/report": {"text": _TEXT},
}
_PYTHON: dict[str, tuple[str, ...]] = {
    "/v1/chat/completions": (_OPENAI + _CHAT, _OPENAI + _STREAM),
    "/v1/completions": (_OPENAI + _COMPLETION,),
    "/v1/responses": (_OPENAI + _RESPONSE,),
    "/v1/models": (_OPENAI + _MODELS,),
    "/v1/watermark/detect": (_DETECT,),
    "/v1/watermark/report": (_REPORT,),
}
_OPEN = ("/healthz", "/readyz", "/v1/watermark/about")  # without an API key
_TITLES = ("Python", "Python, as a stream")


def examples(path: str, *, root: str, model: str, has_api_keys: bool) -> list[tuple[str, str]]:
    """Examples of a request to a path, each with a title; none for a path with a parameter.

    Args:
        path: the path, as in the OpenAPI document.
        root: the URL of the service.
        model: what the service calls its model.
        has_api_keys: whether it needs API keys.
    """
    if "{" in path:
        return []
    needs_key = has_api_keys and path not in _OPEN
    names = {
        "root": root,
        "path": path,
        "model": model,
        "key": f'os.environ["{API_KEY}"]' if needs_key else '"unused"',
        "headers": "",
    }
    if needs_key:
        names["headers"] = (
            f'\n    headers={{"Authorization": "Bearer " + os.environ["{API_KEY}"]}},'
        )
    shown = [("Shell", _curl(path, root, needs_key=needs_key))]
    for title, template in zip(_TITLES, _PYTHON.get(path, (_GET,)), strict=False):
        code = Template(template).substitute(names)
        shown.append((title, f"import os\n\n{code}" if needs_key else code))
    return shown


def _curl(path: str, root: str, *, needs_key: bool) -> str:
    words = [f"curl {shlex.quote(root + path)}"]
    if needs_key:
        words.append(f'-H "Authorization: Bearer ${API_KEY}"')
    if body := _BODIES.get(path):
        words += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(json.dumps(body))}"]
    return " \\\n  ".join(words)
