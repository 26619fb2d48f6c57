"""llama.cpp's own HTTP server in a process of its own, for tests."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx

from hammingmark.assembly.environment import model_store

_SERVE = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.port = int(sys.argv[3])
params.n_parallel = 4
params.n_ctx = 4 * int(sys.argv[2])
params.cpuparams.n_threads = 1  # several would wait for each other where cores are shared
params.cpuparams_batch.n_threads = 1
params.warmup = False
params.endpoint_metrics = True
params.verbosity = 0
if len(sys.argv) > 4:
    params.chat_template = sys.argv[4]
    params.sampling.reasoning_budget_tokens = int(sys.argv[6])
    name = "NONE" if sys.argv[5] == "inline" else "DEEPSEEK"
    formats = xllamacpp.common_reasoning_format
    params.reasoning_format = getattr(formats, "COMMON_REASONING_FORMAT_" + name)
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""

THINKING = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.role == "assistant" and message.reasoning_content -%}
<think>
{{ message.reasoning_content }}
</think>

{% endif -%}
{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
<think>
{% endif -%}
"""
"""A chat template that makes any model think; the server ends it after a few tokens."""

THINKING_TOKENS = 16


@dataclass(frozen=True)
class Tokens:
    """Tokens of prompts, those of them that were cached, and tokens written."""

    read: int
    cached: int
    written: int


@dataclass(frozen=True)
class Server:
    """A server and its process, which can be killed."""

    process: subprocess.Popen[str]
    url: str

    def tokens(self) -> Tokens:
        """What it has counted since it was started, once it is idle."""
        while True:
            content = httpx.get(self.url.removesuffix("/v1") + "/metrics").text
            counts = {
                name.removeprefix("llamacpp:"): float(value)
                for name, _, value in (
                    line.partition(" ") for line in content.splitlines() if line[:1] != "#"
                )
            }
            if not counts["requests_processing"] + counts["requests_deferred"]:
                break
            time.sleep(0.05)
        cached = int(counts["prompt_tokens_cached_total"])
        return Tokens(
            read=int(counts["prompt_tokens_total"]) + cached,
            cached=cached,
            written=int(counts["tokens_predicted_total"]),
        )


def model_file() -> Path:
    """The embedded model."""
    (file,) = model_store().ensure("smollm2").glob("*.gguf")
    return file


@contextmanager
def serving(
    *, context: int = 2048, port: int = 0, thinks: Literal["apart", "inline"] | None = None
) -> Iterator[Server]:
    """Run a server with the embedded model.

    Args:
        context: tokens of each slot.
        port: by default any that is free.
        thinks: whether the model thinks before it answers, and where its reasoning is sent.
    """
    arguments = [str(model_file()), str(context), str(port)]
    options = [THINKING, thinks, str(THINKING_TOKENS)] if thinks else []
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE, *arguments, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield Server(process, process.stdout.readline().strip() + "/v1")
        finally:
            process.kill()
