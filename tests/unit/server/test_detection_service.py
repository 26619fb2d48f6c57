"""Verdicts on texts under the keys of a ring, and that they are those of the library."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from tests.errors import raises_naming
from tests.unit.server.harness import (
    DETECT,
    PATIENCE,
    Home,
    Live,
    LoopThread,
    Served,
    broken_encoder,
    counts,
    error_of,
    key_of,
    marked,
    plain,
    text_of,
    until,
)

from hammingmark.assembly.detection import detector
from hammingmark.assembly.environment import Environment
from hammingmark.assembly.keys import new_key
from hammingmark.keys.key import WatermarkKey
from hammingmark.keys.keyring import Keyring, save, to_json
from hammingmark.protocols import FloatArray
from hammingmark.server.components import ComponentCache
from hammingmark.server.detection.service import DetectionService
from hammingmark.server.service import Service
from hammingmark.server.settings import ServerConfig
from hammingmark.testing import FakeBackend, FakeEncoder, FakeTokenizer

Serve = Callable[..., Served]
HAMMING = {"method": "hamming"}


@pytest.fixture
def ring(home: Home) -> dict[str, WatermarkKey]:
    """Keys of two methods: two of one, three of the other."""
    keys = {f"form-{n}": key_of(n + 10) for n in (1, 2)}
    keys |= {f"bits-{n}": key_of(n, **HAMMING) for n in (3, 4, 5)}
    for name, key in keys.items():
        home.keyring.add(key, name=name)
    return keys


def test_one_key_gives_the_verdict_of_the_library(serve: Serve) -> None:
    served = serve()
    for text in (marked(key_of()), plain(), "Too short.", ""):
        verdict = detector(key_of(), encoder=FakeEncoder()).judge(text)
        found = served.detect(text)
        assert found["watermarked"] is verdict.watermarked
        assert found["p_value"] == verdict.p_value
        assert found["reason"] == verdict.reason
        assert (found["key_id"], found["label"]) == (verdict.key_id, None)
        assert (found["keys"], found["level"], found["power"]) == (1, 0.01, verdict.power)
        assert found["unit"] == verdict.evidence.unit
        assert found["unit_threshold"] == verdict.evidence.threshold
        assert [piece["text"] for piece in found["pieces"]] == list(verdict.pieces)
        scores = [piece["score"] for piece in found["pieces"] if piece["score"] is not None]
        assert scores == [each.score for each in verdict.evidence.scores]
        assert found["method"] == ("bilinear" if verdict.key_id else None)
    assert counts(served, "detection_seconds_count") == {"": 4}


def test_texts_are_judged_each_by_itself_and_in_order(serve: Serve) -> None:
    served = serve()
    texts = [marked(key_of()), plain(), marked(key_of(), seed=2)]
    answer = served.post(DETECT, {"texts": texts})
    results = answer.json()["results"]
    assert [each["watermarked"] for each in results] == [True, False, True]
    assert [results[0]] == served.post(DETECT, {"text": texts[0]}).json()["results"]


def test_keys_of_several_methods_share_the_level(
    serve: Serve, ring: dict[str, WatermarkKey], home: Home
) -> None:
    """The p-value is the best key's times the number of all keys, whatever their methods."""
    served = serve()
    texts = [marked(ring["form-2"]), marked(ring["bits-4"]), f"{plain(1)} {plain(2)} {plain(3)}"]
    forms = [key_of(), ring["form-1"], ring["form-2"]]
    bits = [ring[f"bits-{n}"] for n in (3, 4, 5)]
    found = [served.detect(text) for text in texts]
    assert [each["watermarked"] for each in found] == [True, True, False]
    assert [each["key_id"] for each in found[:2]] == [ring["form-2"].id, ring["bits-4"].id]
    assert [each["method"] for each in found[:2]] == ["bilinear", "hamming"]
    for text, each in zip(texts, found, strict=True):
        alone = [
            detector(group, encoder=FakeEncoder(), level=0.005).judge(text)
            for group in (forms, bits)
        ]
        best = min(verdict.p_value for verdict in alone if verdict.p_value is not None)
        assert each["p_value"] == pytest.approx(min(1.0, 2 * best), rel=1e-12)
        assert (each["keys"], each["level"]) == (6, 0.01)
        relation = "at most" if each["watermarked"] else "above"
        assert each["reason"] == f"p = {each['p_value']:.2g} is {relation} the level 0.01."


def test_some_keys_are_searched_by_name_or_id(serve: Serve, ring: dict[str, WatermarkKey]) -> None:
    served = serve()
    text = marked(ring["form-2"])
    named = served.detect(text, keys=["form-2"])
    assert named == served.detect(text, keys=[ring["form-2"].id])
    assert named == served.detect(text, keys=["form-2", ring["form-2"].id, "form-2"])
    assert (named["watermarked"], named["keys"]) == (True, 1)
    assert served.detect(text, keys=["form-1", "bits-3"])["watermarked"] is False
    assert served.detect(text, keys=["form-1", "form-2"])["keys"] == 2
    for names in (["form-9"], ["form-1", "hm-000000000000"], ["form"]):
        answer = served.post(DETECT, {"text": text, "keys": names})
        assert answer.status_code == 404
        assert error_of(answer)["param"] == "keys"


def test_a_keyless_key_of_the_ring_is_left_out_and_named(serve: Serve, home: Home) -> None:
    keyless = key_of(7, method="continuous", gamma=0.001, threshold=-0.99)
    home.keyring.add(keyless, name="cosine")
    served = serve()
    found = served.detect(plain())
    assert (found["watermarked"], found["keys"]) == (False, 1)
    assert found["excluded_keys"] == [
        {"key_id": keyless.id, "method": "continuous", "reason": "keyless"}
    ]
    assert served.detect(plain(), keys=["cosine"])["watermarked"] is True


@pytest.mark.parametrize("labels", [2, 40])
def test_keys_of_labels_are_searched_where_they_are_given(
    serve: Serve, ring: dict[str, WatermarkKey], labels: int
) -> None:
    """As on the command line; many are ranked, and the p-value is corrected for all of them."""
    served = serve()
    names = [f"customer-{number}" for number in range(labels)]
    derived = key_of().derive("customer-1")
    text = marked(derived)
    verdict = detector(key_of(), labels=names, encoder=FakeEncoder()).judge(text)
    found = served.detect(text, keys=["default"], labels=names)
    assert (found["watermarked"], found["keys"]) == (True, labels)
    assert (found["key_id"], found["label"]) == (derived.id, "customer-1")
    assert found["p_value"] == verdict.p_value
    assert found["method"] == "bilinear"
    assert served.detect(text, keys=["default"], labels=["other"])["watermarked"] is False
    every = served.detect(text, labels=[*names, " customer-1 "])
    assert (every["label"], every["keys"]) == ("customer-1", 6 * labels)


def test_a_derived_key_of_the_ring_has_no_labels_of_its_own(serve: Serve, home: Home) -> None:
    home.keyring.add(key_of().derive("customer-17"), name="customer-17")
    assert serve().detect(plain(), labels=["a", "b"])["keys"] == 2


def test_labels_are_bounded_and_are_labels(
    serve: Serve, ring: dict[str, WatermarkKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    bad: list[Any] = [[], [""], [5], "one", ["x" * 201], ["x"] * 10_001]
    for labels in bad:
        assert served.post(DETECT, {"text": plain(), "labels": labels}).status_code == 422
    answer = served.post(DETECT, {"text": plain(), "labels": ["two\nlines"]})
    assert answer.status_code == 400
    monkeypatch.setattr("hammingmark.server.detection.service.MAX_DERIVED_KEYS", 11)
    assert served.detect(plain(), labels=["a"])["keys"] == 6
    answer = served.post(DETECT, {"text": plain(), "labels": ["a", "b"]})
    assert answer.status_code == 413
    assert error_of(answer)["param"] == "labels"
    assert served.detect(plain(), labels=["a", "b"], keys=["default"])["keys"] == 2


def overwrite(path: Path, key: WatermarkKey) -> None:
    """Put another key into a file, by which nothing of its folder changes."""
    before = path.parent.stat()
    path.write_text(json.dumps(to_json(key, with_secret=True)))
    assert path.parent.stat() == before


def test_a_key_file_that_is_overwritten_is_read_again(
    serve: Serve, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in place; and the key that marked before is searched as long as the process lives."""
    monkeypatch.setattr("hammingmark.keys.file_changes._TICK", -(10**18))  # all is settled
    served = serve()
    assert served.detect(marked(key_of()))["key_id"] == key_of().id
    overwrite(home.keyring.folder / "default.json", key_of(9))
    assert served.service.key.current() == key_of(9)
    for key in (key_of(9), key_of()):
        found = served.detect(marked(key))
        assert (found["watermarked"], found["key_id"], found["keys"]) == (True, key.id, 2)
    listed = served.get("/v1/watermark/keys").json()["keys"]
    assert [(each["id"], each["marks"]) for each in listed] == [
        (key_of(9).id, True),
        (key_of().id, False),
    ]
    by_name = served.detect(marked(key_of(9)), keys=["default"])
    assert (by_name["key_id"], by_name["keys"]) == (key_of(9).id, 1)


def test_files_that_do_not_change_are_not_read_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hammingmark.keys.file_changes._TICK", -(10**18))
    home.keyring.add(key_of(), name="default")
    (home.keyring.folder / "broken.json").write_text("{")
    told: list[str] = []
    detection = DetectionService(
        home.keyring, ComponentCache(FakeEncoder()), on_problem=told.append
    )
    first = detection.entries()
    with monkeypatch.context() as patched:
        patched.setattr(Keyring, "survey", lambda ring: pytest.fail("it is read again"))
        assert detection.entries() == first
    monkeypatch.setattr("hammingmark.keys.file_changes._TICK", 10**18)
    assert detection.entries() == first
    assert len(told) == 1  # although the folder is read every time now


def test_the_key_that_marks_is_searched_wherever_its_file_lies(
    home: Home, loop: LoopThread
) -> None:
    file = home.folder / "elsewhere" / "mine.json"
    save(key_of(9), file)
    service = Service(
        ServerConfig.model_validate({"key": str(file)}),
        environment=Environment(home.folder / "cache", home.keyring.folder, offline=True),
        backend=FakeBackend(),
        encoder=FakeEncoder(),
    )
    served = Served(service, loop)
    text = marked(key_of(9))
    for named in ({}, {"keys": ["mine"]}, {"keys": [key_of(9).id]}):
        found = served.detect(text, **named)
        assert (found["watermarked"], found["key_id"], found["keys"]) == (True, key_of(9).id, 1)
    home.keyring.add(key_of(), name="default")
    assert served.detect(text)["keys"] == 2
    listed = served.get("/v1/watermark/keys").json()["keys"]
    assert [(each["name"], each["marks"]) for each in listed] == [
        ("default", False),
        ("mine", True),
    ]
    served.close()


def test_a_key_of_a_label_is_found_once_it_is_in_the_ring(serve: Serve, home: Home) -> None:
    served = serve()
    derived = key_of().derive("customer-17")
    text = marked(derived)
    assert served.detect(text)["watermarked"] is False
    home.keyring.add(derived, name="customer-17")
    found = served.detect(text)
    assert (found["key_id"], found["label"]) == (derived.id, "customer-17")
    assert found["watermarked"] is True


def test_passages_are_told_and_their_pieces(serve: Serve) -> None:
    served = serve()
    before, after = (" ".join(plain(seed) for seed in seeds) for seeds in ((1, 2), (3, 4)))
    text = f"{before} {marked(key_of())} {after}"
    found = served.detect(text)
    verdict = detector(key_of(), encoder=FakeEncoder()).judge(text)
    assert found["passages"] == [
        {
            "begin": each.begin,
            "end": each.end,
            "begin_character": None,
            "end_character": None,
            "edge_margin": 3,
            "rough": False,
            "p_value": each.p_value,
            "key_id": key_of().id,
            "label": None,
        }
        for each in verdict.passages
    ]
    (first, *_) = found["passages"]
    inside = [i for i, piece in enumerate(found["pieces"]) if piece["in_passage"]]
    assert inside[0] == first["begin"] > 0
    assert inside[-1] == first["end"] - 1 < len(found["pieces"]) - 1


def test_a_passage_counts_before_a_smaller_p_value(
    serve: Serve, ring: dict[str, WatermarkKey]
) -> None:
    """In a text that is not watermarked as a whole, under a key of another method."""
    served = serve()
    rest = " ".join(plain(seed) for seed in range(2, 10))
    text = f"{marked(ring['form-2'], tokens=200)} {rest}"
    alone = served.detect(text, keys=["form-2"])
    assert alone["watermarked"] is False
    assert alone["passages"]
    found = served.detect(text, keys=["form-2", "bits-3", "bits-4", "bits-5"])
    assert found["key_id"] == ring["form-2"].id
    assert found["passages"][0]["p_value"] == pytest.approx(4 * alone["passages"][0]["p_value"])
    first = found["passages"][0]
    assert f"sentences {first['begin'] + 1} to {first['end']}" in found["reason"]


def test_edits_are_allowed_for_where_they_are_asked_for(
    serve: Serve, ring: dict[str, WatermarkKey]
) -> None:
    served = serve()
    text = marked(ring["form-1"], tokens=80).replace(". The", " and the", 1)
    found = served.detect(text, edits=True, keys=["form-1"])
    verdict = detector(ring["form-1"], encoder=FakeEncoder(), edits=True).judge(text)
    assert found["p_value"] == verdict.p_value
    both = served.detect(text, edits=True, keys=["form-1", "bits-3"])
    assert (both["key_id"], both["keys"]) == (ring["form-1"].id, 2)


def test_edits_need_a_method_that_allows_for_them(serve: Serve, home: Home) -> None:
    home.keyring.add(key_of(7, method="random-code"), name="code")
    served = serve()
    refused = served.post(DETECT, {"text": plain(), "edits": True, "keys": ["code"]})
    assert refused.status_code == 400
    assert "edits" in error_of(refused)["message"]
    found = served.detect(marked(key_of()), edits=True)  # the others are searched
    assert (found["keys"], found["watermarked"]) == (1, True)


def test_keys_of_tokens_are_searched_beside_those_of_sentences(
    serve: Serve, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hammingmark.server.components.tokenizer_of", lambda name: FakeTokenizer())
    key = new_key(FakeEncoder(), method="kgw", tokenizer=FakeTokenizer())
    home.keyring.add(key, name="tokens")
    served = serve()
    assert served.detect(marked(key_of()))["keys"] == 2
    found = served.detect(plain(), keys=["tokens"])
    assert (found["unit"], found["keys"]) == ("token", 1)


def test_keys_that_need_a_language_model_are_not_searched(serve: Serve, home: Home) -> None:
    home.keyring.add(key_of(8, method="pmark-online"), name="drawn")
    served = serve()
    assert served.detect(plain())["keys"] == 1
    refused = served.post(DETECT, {"text": plain(), "keys": ["drawn"]})
    assert refused.status_code == 400


def test_the_level_is_that_of_the_request_or_of_the_settings(serve: Serve) -> None:
    served = serve(level=0.2)
    text = plain()
    assert served.detect(text)["level"] == 0.2
    assert served.detect(text, level=0.5)["level"] == 0.5
    p_value = served.detect(text)["p_value"]
    assert served.detect(text, level=min(0.99, p_value + 0.001))["watermarked"] is True
    for level in (0, 1, 1e-301, -1, "x"):
        assert served.post(DETECT, {"text": text, "level": level}).status_code == 422


def test_either_a_text_or_several_are_judged(serve: Serve) -> None:
    served = serve(limits={"texts": 2, "text_characters": 50})
    for body in ({}, {"text": "A.", "texts": ["A."]}, {"texts": []}, {"text": None}, {"text": 5}):
        assert served.post(DETECT, body).status_code == 422
    assert served.post(DETECT, {"text": "A.", "colour": 1}).status_code == 422
    assert served.post(DETECT, {"texts": ["A."] * 3}).status_code == 413
    assert served.post(DETECT, {"texts": ["A.", "a" * 51]}).status_code == 413
    assert served.post(DETECT, {"texts": ["A.", "a" * 50]}).status_code == 200


def test_answers_do_not_wait_for_texts_that_others_have_judged(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    judged, waiting = threading.Event(), threading.Semaphore(0)

    def judge(*anything: object, **named: object) -> list[Any]:
        waiting.release()
        assert judged.wait(PATIENCE)
        return []

    monkeypatch.setattr(served.service.detection, "detect", judge)
    count = served.service._detections._free
    asked = [
        asyncio.run_coroutine_threadsafe(
            served._ask("POST", DETECT, json={"text": "."}), served.loop._loop
        )
        for _ in range(count + 1)
    ]
    for _ in range(count):
        assert waiting.acquire(timeout=PATIENCE)
    assert served.chat().json()["watermark"]["p_value"] is not None
    judged.set()
    assert [each.result(PATIENCE).status_code for each in asked] == [200] * (count + 1)


@dataclass(frozen=True)
class GatedEncoder(FakeEncoder):
    """Embeds while its gate is open; it tells whenever it is asked."""

    gate: threading.Event = field(default_factory=threading.Event, compare=False)
    calls: SimpleQueue[int] = field(default_factory=SimpleQueue, compare=False)

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        self.calls.put(len(sentences))
        assert self.gate.wait(PATIENCE)
        return super().encode(sentences)


LONG = " ".join(plain(seed) for seed in range(40))


@contextmanager
def asking(service: Live, text: str) -> Iterator[socket.socket]:
    """A client who has asked for a verdict; leaving closes the connection."""
    content = json.dumps({"text": text}).encode()
    head = f"POST {DETECT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    address = ("127.0.0.1", int(service.root.rpartition(":")[2]))
    with socket.create_connection(address, timeout=PATIENCE) as made:
        made.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        yield made


def test_a_client_who_leaves_ends_its_detection(live: Callable[..., Live]) -> None:
    encoder = GatedEncoder()
    service = live(encoder=encoder)
    with asking(service, LONG):
        first = encoder.calls.get(timeout=PATIENCE)
        assert len(service.service._detections) == 1
    assert first < len(detector(key_of(), encoder=FakeEncoder()).judge(LONG).pieces)
    until(lambda: len(service.service._detections) == 0)
    encoder.gate.set()
    until(lambda: not service.service._detections._jobs)
    assert encoder.calls.empty()  # there was no slice after the one under way
    until(lambda: 'status="499"' in service.client.get("/metrics").text)
    assert service.client.post(DETECT, json={"text": plain()}).status_code == 200


def test_a_detection_has_its_time(serve: Serve) -> None:
    encoder = GatedEncoder()
    served = serve(encoder=encoder, limits={"request_timeout": 0.05})
    answer = served.post(DETECT, {"text": LONG})
    assert answer.status_code == 504
    assert error_of(answer)["type"] == "timeout"
    encoder.gate.set()
    until(lambda: not served.service._detections._jobs)


def test_pieces_are_told_unless_they_are_not_wanted(serve: Serve) -> None:
    served = serve()
    text = text_of(served.chat())
    whole, without = served.detect(text), served.detect(text, pieces=False)
    assert len(whole["pieces"]) > 1
    assert without == {**whole, "pieces": []}
    assert served.post(DETECT, {"text": text, "pieces": "no"}).status_code == 422


def test_detections_have_limits_of_their_own(live: Callable[..., Live]) -> None:
    encoder = GatedEncoder()
    service = live(encoder=encoder, limits={"detections": 2, "queue": 1})
    with asking(service, LONG):
        encoder.calls.get(timeout=PATIENCE)
        refused = service.client.post(DETECT, json={"text": plain()})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert error_of(refused)["code"] == "queue_full"
        assert len(service.service.admission) == 0
    encoder.gate.set()


@pytest.mark.parametrize("leaves", [True, False])
def test_the_service_does_not_wait_for_a_detection_beyond_its_grace(
    live: Callable[..., Live], caplog: pytest.LogCaptureFixture, leaves: bool
) -> None:
    encoder = GatedEncoder()
    service = live(encoder=encoder, limits={"shutdown_grace": 0.05})
    with asking(service, LONG) as connection:
        encoder.calls.get(timeout=PATIENCE)
        if not leaves:
            service.tell_to_stop()
            assert b" 503 " in connection.recv(100)
    service.tell_to_stop()
    service.wait_for_end()
    assert service.service._detections._jobs  # which the encoder still holds
    assert "CancelledError" not in caplog.text
    encoder.gate.set()
    until(lambda: not service.service._detections._jobs)


def test_an_encoder_that_fails_is_told(serve: Serve) -> None:
    answer = serve(encoder=broken_encoder()).post(DETECT, {"text": plain()})
    assert answer.status_code == 503
    assert error_of(answer)["type"] == "watermark_error"


def test_keys_are_listed_without_their_secrets(
    serve: Serve, ring: dict[str, WatermarkKey], home: Home
) -> None:
    served = serve()
    home.keyring.rotate("form-1")
    answer = served.get("/v1/watermark/keys")
    listed = {each["name"]: each for each in answer.json()["keys"]}
    assert listed.keys() == {*ring, "default", f"form-1-{ring['form-1'].id.removeprefix('hm-')}"}
    assert {name for name, each in listed.items() if each["marks"]} == {"default"}
    assert listed["bits-3"]["method"] == "hamming"
    assert [name for name, each in listed.items() if each["retired"]] == [
        f"form-1-{ring['form-1'].id.removeprefix('hm-')}"
    ]
    for key in (key_of(), *ring.values()):
        assert key.secret.reveal().hex() not in answer.text


def test_a_file_that_is_no_key_hides_none_of_the_others(serve: Serve, home: Home) -> None:
    served = serve()
    (home.keyring.folder / "broken.json").write_text("{")
    assert [each["name"] for each in served.get("/v1/watermark/keys").json()["keys"]] == ["default"]
    assert served.detect(marked(key_of()))["watermarked"] is True


def test_a_ring_without_a_key_is_told(home: Home) -> None:
    detection = DetectionService(home.keyring, ComponentCache(FakeEncoder()))
    with raises_naming(Exception, "hammingmark keys new") as missing:
        detection.select(None)
    assert missing.value.status == 404  # type: ignore[attr-defined]


def test_what_nobody_waits_for_is_refused(serve: Serve) -> None:
    served = serve()
    labels = [f"day {number}" for number in range(300)]
    asked = {"text": plain(), "labels": labels, "level": 1e-6, "edits": True}
    answer = served.post(DETECT, asked)
    assert answer.status_code == 400
    assert "Search fewer keys" in error_of(answer)["message"]
    assert served.detect(plain(), labels=labels, level=1e-6)["keys"] == 300


def test_a_tokenizer_that_is_missing_is_told_without_its_file(
    serve: Serve, home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    key = new_key(FakeEncoder(), method="kgw", tokenizer=FakeTokenizer())
    home.keyring.add(key, name="tokens")
    answer = serve().post(DETECT, {"text": plain(), "keys": ["tokens"]})
    assert answer.status_code == 503
    assert "A required model is unavailable" in error_of(answer)["message"]
    assert "tokenizers" not in answer.text


def test_a_text_that_the_encoder_does_not_read_gets_a_warning(
    home: Home, serve: Callable[..., Served]
) -> None:
    encoder = FakeEncoder(name="minilm")  # the name of an encoder that reads English only
    home.keyring.add(new_key(encoder), name="default")
    served = serve(encoder=encoder)
    german = "Der Hund lief über die Straße und sah die Katze. Sie saß auf dem Dach und schlief. "
    english = "The dog ran over the road and it saw the cat. "
    (warning,) = served.detect(german * 5)["warnings"]
    assert warning["kind"] == "language"
    assert "minilm" in warning["message"]
    assert served.detect(english * 9)["warnings"] == []
