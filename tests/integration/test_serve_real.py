"""The service on real models, in a process of its own, by the official client."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from tests.llama_server import serving
from tests.serving import Served, keep_key, serve

import hammingmark
from hammingmark.server.audit import verify

pytestmark = pytest.mark.slow

QUESTION: Any = [{"role": "user", "content": [{"type": "text", "text": "Why does it rain?"}]}]


def client_of(served: Served) -> openai.OpenAI:
    return openai.OpenAI(base_url=served.url, api_key="unused", max_retries=0, timeout=300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("serve")


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    """The embedded pair, started by the one command, with an audit log."""
    audit = str(folder / "audit.jsonl")
    switch = ("--set", "policy.switch_off=allowed")
    with serve(folder, "--audit-log", audit, *switch) as made:
        yield made


def test_the_first_start_makes_a_key_and_says_where(served: Served, folder: Path) -> None:
    said = served.log.read_text()
    assert str(folder / "keys" / "default.json") in said
    key = hammingmark.load_key(folder / "keys" / "default.json")
    assert key.id in said
    assert key.secret.reveal().hex() not in said


def test_the_official_client_gets_marked_text_whole_and_streamed(
    served: Served, folder: Path
) -> None:
    client = client_of(served)
    assert [model.id for model in client.models.list()] == ["hammingmark"]
    options: Any = {"model": "hammingmark", "messages": QUESTION, "max_tokens": 80}
    for seed in range(8):  # a chat may be answered by one sentence
        whole = client.chat.completions.create(**options, seed=seed)
        told: Any = (whole.model_extra or {})["watermark"]
        if told["sentences"] > 1 and told["status"] == "marked":
            break
    assert told["status"] == "marked"
    text = whole.choices[0].message.content or ""
    assert whole.usage is not None
    assert whole.usage.completion_tokens == told["emitted_tokens"] <= 120
    assert 15 < whole.usage.prompt_tokens < 60
    key = hammingmark.load_key(folder / "keys" / "default.json")
    assert hammingmark.detect(text, key=key).p_value == told["p_value"]
    answer = httpx.post(f"{served.url}/watermark/detect", json={"text": text}, timeout=60).json()
    assert answer["results"][0]["p_value"] == told["p_value"]
    assert answer["results"][0]["key_id"] == key.id
    # The model may round otherwise the second time, and write another text. The first sentence,
    # which the mark does not choose, comes with the second.
    for again in range(seed, seed + 8):
        chunks = list(client.chat.completions.create(**options, seed=again, stream=True))
        pieces = [chunk.choices[0].delta.content or "" for chunk in chunks]
        told = (chunks[-1].model_extra or {})["watermark"]
        if told["sentences"] > 2:
            break
    assert sum(bool(piece) for piece in pieces) == len([p for p in pieces if p.strip()]) > 1
    assert hammingmark.detect("".join(pieces), key=key).p_value == told["p_value"]


def test_several_clients_share_the_engine(served: Served) -> None:
    client = client_of(served)

    def ask(number: int) -> tuple[str, str]:
        made = client.completions.create(
            model="hammingmark", prompt="The harbour was quiet.", max_tokens=40, seed=number
        )
        return made.choices[0].text, (made.model_extra or {})["watermark"]["status"]

    with ThreadPoolExecutor(6) as pool:
        texts, statuses = zip(*pool.map(ask, range(6)), strict=True)
    assert len(set(texts)) == 6
    # For the only sentence of a short text now and then no candidate satisfies the rule.
    assert statuses.count("marked") >= 4


def test_what_cannot_be_marked_says_so(served: Served) -> None:
    client = client_of(served)
    plain = client.completions.create(
        model="hammingmark", prompt="It rained.", max_tokens=20, temperature=0
    )
    told: Any = (plain.model_extra or {})["watermark"]
    assert told["status"] == "unmarked"
    assert "temperature 0" in told["reason"]
    off = client.completions.create(
        model="hammingmark", prompt="It rained.", max_tokens=20,
        extra_body={"watermark": {"enabled": False}},
    )  # fmt: skip
    assert (off.model_extra or {})["watermark"]["status"] == "unmarked"
    for seed in range(8):  # a text may have one sentence
        chunks = client.completions.create(
            model="hammingmark", prompt="It rained.", max_tokens=60, seed=seed, stream=True,
            extra_body={"watermark": {"enabled": False}},
        )  # fmt: skip
        if sum(bool(chunk.choices[0].text) for chunk in chunks) > 1:
            break
    else:
        pytest.fail("unmarked text came whole")
    with pytest.raises(openai.BadRequestError, match="JSON are not marked"):
        client.chat.completions.create(
            model="hammingmark", messages=QUESTION, response_format={"type": "json_object"}
        )


def test_killed_and_started_again_it_tells_what_was_under_way(tmp_path: Path) -> None:
    """Nothing that was acknowledged is lost, and what was interrupted is recorded."""
    audit = tmp_path / "audit.jsonl"
    with serve(tmp_path, "--audit-log", str(audit)) as made:
        client = client_of(made)
        done = client.completions.create(
            model="hammingmark", prompt="It rained.", max_tokens=20, seed=1
        )
        began = threading.Barrier(5)

        def stream(number: int) -> None:
            asked = client.completions.create(
                model="hammingmark", prompt="It rained.", max_tokens=400, stream=True, seed=number
            )
            try:
                next(iter(asked))
                began.wait(300)
                list(asked)
            except (openai.APIError, httpx.HTTPError):
                pass

        threads = [threading.Thread(target=stream, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        began.wait(300)
        made.stop(sign=signal.SIGKILL)
        for thread in threads:
            thread.join()
    with serve(tmp_path, "--audit-log", str(audit)) as made:
        made.stop()
    assert verify(audit) == []
    rows = [json.loads(line) for line in audit.read_text().splitlines()]
    ended = [row["request_id"] for row in rows if row["event"] == "end"]
    assert done.id.removeprefix("cmpl-") in ended
    begun = [row["request_id"] for row in rows if row["event"] == "begin"]
    interrupted = [row["request_id"] for row in rows if row["event"] == "interrupted"]
    assert interrupted, "of four long texts none was under way"
    assert sorted(ended + interrupted) == sorted(begun)
    assert len(begun) == 5
    assert rows[-1]["event"] == "stopped"


def test_in_front_of_a_real_endpoint(tmp_path: Path) -> None:
    """llama.cpp's own server writes; it dies in the middle, and comes back."""
    keep_key(tmp_path)
    once = ("--set", "upstream.retries=0")
    with serving() as upstream, serve(tmp_path, "--upstream", upstream.url, *once) as made:
        client = client_of(made)
        (model,) = client.models.list()
        told: Any = []
        for seed in range(4):  # of one sentence now and then no candidate satisfies the rule
            asked = client.chat.completions.create(
                model=model.id, messages=QUESTION, max_tokens=60, stream=True, seed=seed
            )
            told += [(chunk.model_extra or {}).get("watermark") for chunk in asked][-1:]
            if told[-1]["status"] == "marked":
                break
        assert told[-1]["status"] == "marked"
        passed = client.chat.completions.with_raw_response.create(
            model=model.id, messages=QUESTION, max_tokens=10, temperature=0
        )
        assert passed.headers["x-watermark-status"] == "unmarked"
        assert "watermark" in (passed.parse().model_extra or {})
        upstream.process.kill()
        with pytest.raises(openai.APIStatusError) as failed:
            client.completions.create(model=model.id, prompt="It rained.", max_tokens=20)
        assert failed.value.status_code == 502
        assert httpx.get(f"{made.root}/healthz").status_code == 200
        upstream.process.wait()
        with serving(port=httpx.URL(upstream.url).port or 0):
            again = client.completions.create(model=model.id, prompt="It rained.", max_tokens=20)
            assert again.choices[0].text.strip()
