"""What the service costs over the bare model, and how it carries many clients.

    python benchmarks/server.py latency
    python benchmarks/server.py clients --clients 1 8 64

``latency`` asks llama.cpp's server and the service in front of it for the same answers, one after
the other and in turns: seconds until the first sentence has arrived, and until the whole answer
has. ``clients`` has so many clients, each with an API key of its own, ask at once. One client alone
asks, one after the other, what eight ask at once, so that both write nearly the same: the ratio of
seconds per token tells what company costs. Further figures: tokens per second, the first sentence,
the slowest client beside the fastest, and the memory of the service. With ``--greedy`` one more
client asks for eight long answers first: what the others then wait tells whether one can starve
them. Without ``--upstream`` the embedded model writes in the service's own process tree.

Everything runs on this machine, as processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from hammingmark.assembly.environment import model_store
from hammingmark.models.catalogue import CATALOGUE, DEFAULT_GENERATOR
from hammingmark.models.entries import GeneratorCard
from hammingmark.server.authorization import add_to_file, new_api_key

_ALONE = 8  # questions of one client alone

QUESTIONS = (
    "Why does it rain?",
    "What is a lighthouse for?",
    "Tell me about the history of bread.",
    "How do birds find their way?",
    "What makes a good neighbour?",
    "Why is the sea salty?",
    "How does a clock work?",
    "What is snow made of?",
)

LLAMA = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_parallel = int(sys.argv[2])
params.n_ctx = 1024 * params.n_parallel
params.port = int(sys.argv[3])
params.verbosity = 0
server = xllamacpp.Server(params)
print("ready", flush=True)
sys.stdin.read()
"""


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


@contextmanager
def llama_server(parallel: int) -> Iterator[str]:
    card = CATALOGUE[DEFAULT_GENERATOR].card
    assert isinstance(card, GeneratorCard)
    file = model_store().ensure(DEFAULT_GENERATOR) / card.file
    port = free_port()
    command = [sys.executable, "-c", LLAMA, str(file), str(parallel), str(port)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()
        url = f"http://127.0.0.1:{port}/v1"
        wait_for(f"{url}/models")
        try:
            yield url
        finally:
            process.kill()


@contextmanager
def service(*options: str) -> Iterator[tuple[str, int]]:
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, "HAMMINGMARK_KEYRING": folder}
        serve = "from hammingmark.cli import main; main()"
        command = [sys.executable, "-c", serve, "serve", "--port", str(port), *options]
        log = Path(folder) / "log"
        with log.open("wb") as told, subprocess.Popen(command, env=environ, stderr=told) as process:
            try:
                wait_for(f"http://127.0.0.1:{port}/readyz")
                yield f"http://127.0.0.1:{port}/v1", process.pid
            finally:
                process.terminate()
                process.wait()


def wait_for(url: str) -> None:
    for _ in range(600):
        try:
            if httpx.get(url).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise TimeoutError(url)


async def ask(
    client: httpx.AsyncClient, url: str, number: int, tokens: int, *, token: str = "", n: int = 1
) -> dict[str, float]:
    """One streamed answer: seconds to its first sentence and to its end, and its tokens."""
    body = {
        "n": n,
        "messages": [{"role": "user", "content": QUESTIONS[number % len(QUESTIONS)]}],
        "max_tokens": tokens,
        "seed": number,
        "temperature": 0.8,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    began = time.perf_counter()
    text, first, used, drawn = "", 0.0, 0, 0
    shown = {"Authorization": f"Bearer {token}"} if token else {}
    where = f"{url}/chat/completions"
    async with client.stream("POST", where, json=body, headers=shown) as response:
        if response.status_code != 200:
            raise RuntimeError(f"{response.status_code}: {(await response.aread())[:200]!r}")
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            if "error" in chunk:
                raise RuntimeError(str(chunk["error"]))
            for choice in chunk.get("choices", ()):
                text += choice["delta"].get("content") or ""
            if not first and any(mark in text for mark in (". ", "! ", "? ", ".\n")):
                first = time.perf_counter() - began
            first = first or (
                time.perf_counter() - began if text.rstrip().endswith((".", "!", "?")) else 0.0
            )
            used = (chunk.get("usage") or {}).get("completion_tokens") or used
            drawn += (chunk.get("watermark") or {}).get("drawn_tokens", 0)
    whole = time.perf_counter() - began
    return {"first": first or whole, "whole": whole, "tokens": used, "drawn": drawn}


async def latency(given: argparse.Namespace) -> None:
    with llama_server(given.parallel) as bare, service("--upstream", bare) as (marked, _):
        took: dict[str, list[dict[str, float]]] = {"bare": [], "marked": []}
        async with httpx.AsyncClient(timeout=600) as client:
            for url in (bare, marked):
                await ask(client, url, 0, 8)
            for number in range(given.requests):
                for name, url in (("bare", bare), ("marked", marked)):
                    took[name].append(await ask(client, url, number, given.tokens))
        for what in ("first", "whole"):
            medians = {
                name: statistics.median(row[what] for row in rows) for name, rows in took.items()
            }
            per_token = {
                name: sum(row["whole"] for row in rows) / max(1, sum(row["tokens"] for row in rows))
                for name, rows in took.items()
            }
            report: dict[str, Any] = {"seconds": what, "requests": given.requests}
            report |= {name: round(value, 3) for name, value in medians.items()}
            report["marked over bare"] = round(medians["marked"] / medians["bare"], 2)
            if what == "whole":
                ratio = per_token["marked"] / per_token["bare"]
                report["marked over bare, per emitted token"] = round(ratio, 2)
            print(json.dumps(report), flush=True)


async def clients(given: argparse.Namespace) -> None:
    folder = Path(tempfile.mkdtemp())
    tokens_of = api_keys(folder / "api-keys.jsonl", max(given.clients) + 1)

    @contextmanager
    def served() -> Iterator[tuple[str, int]]:
        options = ["--set", f"parallel={given.parallel}", "--set", "log.level=warning"]
        options += ["--api-keys", str(folder / "api-keys.jsonl")]
        if given.upstream:
            with llama_server(given.parallel) as bare, service("--upstream", bare, *options) as it:
                yield it
        else:
            with service(*options) as it:
                yield it

    alone: dict[str, float] = {}
    with served() as (url, process):
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=600, limits=limits) as client:
            await ask(client, url, 0, 8, token=tokens_of[0])
            greedy = None
            if given.greedy:
                asked = ask(client, url, 0, 2000, token=tokens_of[-1], n=8)
                greedy = asyncio.create_task(asked)
                await asyncio.sleep(2)
            for count in given.clients:
                began = time.perf_counter()

                async def one(number: int, alone: bool) -> list[dict[str, float]]:
                    asked = range(_ALONE) if alone else [number]
                    return [
                        await ask(client, url, each, given.tokens, token=tokens_of[number])
                        for each in asked
                    ]

                rows = await asyncio.gather(*(one(number, count == 1) for number in range(count)))
                took = time.perf_counter() - began
                answers = [row for each in rows for row in each]
                tokens, drawn = (sum(row[name] for row in answers) for name in ("tokens", "drawn"))
                of_each = [sum(row["whole"] for row in each) for each in rows]
                alone = alone or {"emitted": took / tokens, "drawn": took / drawn}
                report = {
                    "clients": count,
                    "answers": len(answers),
                    "seconds": round(took, 1),
                    "tokens per second": round(tokens / took, 1),
                    "drawn per second": round(drawn / took, 1),
                    "seconds per emitted token over one client's": round(
                        took / tokens / alone["emitted"], 3
                    ),
                    "per drawn token": round(took / drawn / alone["drawn"], 3),
                    "first sentence, median": round(
                        statistics.median(row["first"] for row in answers), 2
                    ),
                    "first sentence, slowest": round(max(row["first"] for row in answers), 2),
                    "slowest client over fastest": round(max(of_each) / min(of_each), 2),
                    "memory, MiB": memory(process),
                }
                print(json.dumps(report), flush=True)
            if greedy is not None:
                greedy.cancel()


def api_keys(file: Path, count: int) -> list[str]:
    """The tokens of so many API keys that a new file lets in."""
    made = [new_api_key(f"client-{number}", scopes=("generate",)) for number in range(count)]
    for _, key in made:
        add_to_file(file, key)
    return [token for token, _ in made]


def memory(process: int) -> int:
    """Resident memory of a process and its children, in MiB."""
    total = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(folder.name) == process or int(fields[1]) == process:
                total += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            continue
    return round(total / 2**20)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("latency")
    first.add_argument("--requests", type=int, default=12)
    second = commands.add_parser("clients")
    second.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    second.add_argument("--greedy", action="store_true", help="one more client asks for much")
    second.add_argument("--upstream", action="store_true", help="llama.cpp's server writes")
    for command, does in ((first, latency), (second, clients)):
        command.add_argument("--tokens", type=int, default=80)
        command.add_argument("--parallel", type=int, default=8)
        command.set_defaults(does=does)
    given = parser.parse_args()
    asyncio.run(given.does(given))


if __name__ == "__main__":
    main()
