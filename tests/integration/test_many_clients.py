"""Two hundred clients at once before a real process, with the real encoder.

The model behind it is a server of this machine that makes its sentences out of words, so that what
is tried is the service and not a language model.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from tests.serving import keep_key, serve
from tests.unit.backends.openai_server import Handler, running

from hammingmark.server.audit import verify
from hammingmark.testing.fakes import paragraph

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read off /proc"),
]

CLIENTS = 200


def tell_stories(handler: Handler, body: dict[str, Any]) -> None:
    """Stream every choice word by word; the seed and what stands there decide."""
    handler.begin()
    limit = body.get("max_tokens") or body["max_completion_tokens"]
    asked = json.dumps([body.get("seed"), body.get("prompt"), body.get("messages")])
    for index in range(body.get("n", 1)):
        words = paragraph(Random(f"{index} {asked}")).split()
        for word in words[:limit]:
            handler.piece(index, f" {word}")
        handler.piece(index, "", "length" if limit < len(words) else "stop")
    handler.event("[DONE]")


@dataclass
class Client:
    """What one client got."""

    answers: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


async def ask(client: httpx.AsyncClient, number: int, turn: int, got: Client) -> None:
    body = {
        "model": "tiny", "prompt": f"Client {number} asked.", "max_tokens": 24, "stream": True,
        "seed": 1000 * number + turn,
    }  # fmt: skip
    last: dict[str, Any] = {}
    async with client.stream("POST", "/v1/completions", json=body) as answer:
        if answer.status_code != 200:
            got.errors.append((await answer.aread()).decode())
            return
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                last = json.loads(line[6:])
    if "error" in last or "watermark" not in last:
        got.errors.append(str(last))
    else:
        got.answers.append(last["watermark"])


async def crowd(root: str, *, goes_on: Callable[[], bool]) -> list[Client]:
    """Clients that ask again as long as they may, each once at least."""
    limits = httpx.Limits(max_connections=None)
    clients = [Client() for _ in range(CLIENTS)]
    async with httpx.AsyncClient(base_url=root, timeout=600, limits=limits) as connection:

        async def keep_asking(number: int) -> None:
            turn = 0
            while turn == 0 or goes_on():
                await ask(connection, number, turn, clients[number])
                turn += 1

        await asyncio.gather(*map(keep_asking, range(CLIENTS)))
    return clients


def memory(process: int) -> int:
    """Bytes that a process holds."""
    status = Path(f"/proc/{process}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return 1024 * int(line.split()[1])


def try_out(folder: Path, *, seconds: float) -> None:
    keep_key(folder)
    audit = folder / "audit.jsonl"
    held: list[int] = []

    def goes_on() -> bool:
        held.append(memory(made.process.pid))
        return time.monotonic() < end

    with running() as upstream:
        upstream.always = tell_stories
        options = ("--upstream", upstream.url, "--audit-log", str(audit))
        with serve(folder, *options) as made:
            end = time.monotonic() + seconds
            clients = asyncio.run(crowd(made.root, goes_on=goes_on))
            made.stop()
    assert [error for client in clients for error in client.errors] == []
    assert all(client.answers for client in clients)
    answers = [answer for client in clients for answer in client.answers]
    assert all(answer["status"] == "marked" or answer["reason"] for answer in answers)
    marked = sum(answer["status"] == "marked" for answer in answers)
    # Of the one or two sentences of an answer each has few candidates that differ.
    assert marked > 0.5 * len(answers)
    # What was held when a hundred answers had ended is about all that is ever held.
    assert max(held) < 1.5 * held[100] + 64 * 2**20, (held[100], max(held))
    assert verify(audit) == []
    rows = [json.loads(line) for line in audit.read_text().splitlines()]
    assert sum(row["event"] == "end" for row in rows) == len(answers)
    assert rows[-1]["event"] == "stopped"


def test_two_hundred_clients_are_all_served(tmp_path: Path) -> None:
    try_out(tmp_path, seconds=0)


@pytest.mark.study
def test_two_hundred_clients_for_a_minute_take_no_more_memory(tmp_path: Path) -> None:
    try_out(tmp_path, seconds=60)
