"""Marked text through llama.cpp's own HTTP server, which runs in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.conftest import assert_counted

from hammingmark.assemble import load_backend, model_store, writer
from hammingmark.backends.openai import OpenAIBackend
from hammingmark.keys import WatermarkKey
from hammingmark.pipeline.generate import Settings
from hammingmark.protocols import Encoder, Splitter
from hammingmark.records import Message, Prompt, Request, Sampling

pytestmark = pytest.mark.slow

TEXT = Prompt("The lighthouse had been dark for a year. Nobody in the village knew why.")
CHAT = Prompt(messages=(Message("user", "Tell me a story about a lighthouse, in many sentences."),))
FEW = Settings(max_tokens=80)

SERVE = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.port = 0
params.n_parallel = 4
params.n_ctx = 4 * 2048
params.cpuparams.n_threads = 1  # several would wait for each other where cores are shared
params.cpuparams_batch.n_threads = 1
params.warmup = False
params.verbosity = 0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Server:
    """A server and its process, which can be killed."""

    process: subprocess.Popen[str]
    url: str


@contextmanager
def serving() -> Iterator[Server]:
    (file,) = Path(model_store().ensure("smollm2")).glob("*.gguf")
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(file)],
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


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


@pytest.mark.parametrize("prompt", [TEXT, CHAT], ids=["completions", "chat"])
def test_what_is_accepted_is_counted(
    server: Server, encoder: Encoder, splitter: Splitter, marking_key: WatermarkKey, prompt: Prompt
) -> None:
    """Several candidates of a sentence come in one request, and the model need not be named."""
    backend = load_backend(f"openai:@{server.url}")
    assert isinstance(backend, OpenAIBackend)
    made = writer(marking_key, backend=backend, encoder=encoder, splitter=splitter, settings=FEW)
    draft = made.write(prompt, seed=3)
    assert draft.error is None
    assert 20 <= draft.cost.tokens <= 80
    assert any(assert_counted(draft, marking_key, encoder=encoder, splitter=splitter))
    assert backend.refused == frozenset()
    backend.close()


def test_the_same_seed_gives_the_same_text(
    server: Server, encoder: Encoder, splitter: Splitter, marking_key: WatermarkKey
) -> None:
    # What llama.cpp keeps of earlier prompts changes the last digits of what it computes.
    backend = OpenAIBackend(server.url, "any", width=1, extra={"cache_prompt": False})
    made = writer(marking_key, backend=backend, encoder=encoder, splitter=splitter, settings=FEW)
    drafts = [made.write(TEXT, seed=seed) for seed in (5, 5, 6)]
    assert drafts[0].text == drafts[1].text
    assert drafts[0].text != drafts[2].text


def test_candidates_of_one_request_differ(server: Server) -> None:
    backend = OpenAIBackend(server.url, "any")
    session = backend.open(Sampling())
    for number in range(4):
        session.submit(Request(number, TEXT, "", 100 + number, 8, lambda text: False))
    found: dict[int, str] = {}
    while len(found) < 4:
        for candidate in session.wait():
            assert candidate.cut
            assert len(candidate.pieces) == 8
            found[candidate.number] = candidate.text
    session.close()
    assert len(set(found.values())) == 4
    assert "n" not in backend.refused


def test_a_chat_is_continued_and_not_begun_anew(server: Server) -> None:
    """The model goes on with the sentence it was left in."""
    backend = OpenAIBackend(server.url, "any")
    session = backend.open(Sampling(temperature=0.1))
    chat = Prompt(messages=(Message("user", "What is the capital of France?"),))
    session.submit(Request(0, chat, "The capital of France is", 1, 3, lambda text: False))
    (candidate,) = session.wait()
    session.close()
    assert candidate.text.startswith(" Paris")


def test_a_server_that_dies_leaves_what_was_accepted(
    encoder: Encoder, splitter: Splitter, marking_key: WatermarkKey
) -> None:
    with serving() as server:
        backend = OpenAIBackend(server.url, "any", retries=1, backoff=0.05)
        made = writer(marking_key, backend=backend, encoder=encoder, splitter=splitter)
        run = made.stream(TEXT, seed=3)
        steps = []
        for step in run:
            steps.append(step)
            if len(steps) == 2:
                server.process.kill()
                server.process.wait()
    (draft,) = run.drafts()
    assert len(steps) >= 2
    assert draft.stopped == "error"
    assert draft.error is not None
    assert "Check that the server runs" in draft.error
    assert draft.text == "".join(step.text for step in steps).strip()
    assert tuple(splitter.split(draft.text).carrying) == draft.sentences
