"""LiteLLM's proxy in front of the service: what of the watermark's status its clients get.

It needs ``pip install 'litellm[proxy]'``, in another environment if need be: the variable LITELLM
is then the path of its command.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.unit.server.harness import QUESTION, Home, Live, key_of

COMMAND = shutil.which(os.environ.get("LITELLM", "litellm"))
PREFIX = "llm_provider-x-watermark-"
MASTER = "sk-for-this-test"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(COMMAND is None, reason="litellm[proxy] is not installed"),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    live = Live(Home(tmp_path_factory.mktemp("service")).service())
    yield live
    live.close()


@pytest.fixture(scope="module")
def proxy(service: Live, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of the proxy in front of the service."""
    assert COMMAND is not None
    folder = tmp_path_factory.mktemp("proxy")
    model = {"model": "openai/hammingmark", "api_base": f"{service.root}/v1", "api_key": "unused"}
    models = [{"model_name": "hammingmark", "litellm_params": model}]
    config = folder / "config.yaml"
    config.write_text(json.dumps({"model_list": models}))  # JSON is YAML
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": MASTER}
    arguments = ["--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    with (
        subprocess.Popen(
            [COMMAND, *arguments, "--telemetry", "False"],
            env={**os.environ, **offline},
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process,
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers={"Authorization": f"Bearer {MASTER}"},
            timeout=120,
            trust_env=False,
        ) as client,
    ):
        try:
            _wait(client, process)
            yield client
        finally:
            process.kill()


def _wait(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    """Wait until the proxy answers."""
    while process.poll() is None:
        try:
            if client.get("/health/liveliness").is_success:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise AssertionError(f"litellm ended with {process.returncode}")


def told(answer: httpx.Response) -> dict[str, str]:
    """The headers about the watermark that reach the client."""
    headers = answer.headers.items()
    return {name.removeprefix(PREFIX): value for name, value in headers if PREFIX in name}


CASES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": QUESTION, "max_tokens": 60},
    "/v1/responses": {"input": "What happened?", "max_output_tokens": 60},
}


def test_headers_and_body_keep_the_status(proxy: httpx.Client) -> None:
    for path, asked in CASES.items():
        answer = proxy.post(path, json={"model": "hammingmark", **asked})
        assert answer.is_success, answer.text
        found, mark = told(answer), answer.json()["watermark"]
        assert (found["status"], found["key-id"]) == (mark["status"], key_of().id)
        assert float(found["p-value"]) == mark["p_value"]
        for name in ("candidates", "drawn_tokens", "emitted_tokens"):
            assert found[name.replace("_", "-")] == str(mark[name])


def test_streams_keep_what_is_known_at_their_beginning(proxy: httpx.Client) -> None:
    for path, asked in CASES.items():
        answer = proxy.post(path, json={"model": "hammingmark", "stream": True, **asked})
        assert answer.is_success, answer.text
        assert told(answer) == {"status": "marking", "key-id": key_of().id}


def test_a_text_keeps_its_status_in_the_body(proxy: httpx.Client) -> None:
    body = {"model": "hammingmark", "prompt": "It was late.", "max_tokens": 60}
    answer = proxy.post("/v1/completions", json=body)
    assert answer.json()["watermark"]["key_id"] == key_of().id
