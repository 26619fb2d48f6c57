"""What strangers may ask the detector, and what they are told."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.unit.reports.test_text import verdict
from tests.unit.server.harness import DETECT, Home, Served, error_of, key_of

from hammingmark.assembly.marking import writer
from hammingmark.attacks.spelling import Homoglyphs
from hammingmark.generation.config import GenerationConfig
from hammingmark.records import DetectionWarning, Evidence, ExcludedKey, Verdict
from hammingmark.server.detection.disclosure import Detail, disclosed, level_of, rung
from hammingmark.server.detection.near_copies import NearCopies
from hammingmark.testing import FakeBackend, FakeEncoder
from hammingmark.testing.fakes import paragraph, sentence

Serve = Callable[..., Served]
PUBLIC = {"host": "0.0.0.0", "open": True}
LAX = {"detection_level": 0.01}
PRIVATE_FIELDS = ("z", "tail_estimate")
DAY = 86_400.0


def marked(tokens: int = 120, seed: int = 1) -> str:
    config = GenerationConfig(max_tokens=tokens)
    made = writer(key_of(), backend=FakeBackend(), encoder=FakeEncoder(), config=config)
    return made.write("It was late.", seed=seed).text


def plain(seed: int = 1) -> str:
    return paragraph(Random(seed))


def sentences(count: int, seed: int = 1) -> list[str]:
    rng = Random(seed)
    return [sentence(rng) for _ in range(count)]


def ask(served: Served, *texts: str, **named: Any) -> dict[str, Any]:
    answer = served.post(DETECT, {"texts": texts} | named)
    assert answer.status_code == 200, answer.text
    content: dict[str, Any] = answer.json()
    return content


def test_on_this_machine_everything_is_told(serve: Serve) -> None:
    answer = ask(serve(), marked())
    assert answer["detail"] == "scores"
    assert any(piece["score"] is not None for piece in answer["results"][0]["pieces"])
    assert answer["results"][0]["statistics"]


@pytest.mark.parametrize("others", [PUBLIC, {"open": True}, {"trusted_proxies": ["10.0.0.7"]}])
def test_strangers_are_told_the_verdict_alone(serve: Serve, others: dict[str, Any]) -> None:
    texts = [marked(), plain(), "Too short."]
    exact = ask(serve(), *texts, level=0.0001)["results"]
    answer = ask(serve(**others), *texts)
    assert answer["detail"] == "verdict"
    for found, known in zip(answer["results"], exact, strict=True):
        assert found["watermarked"] is known["watermarked"]
        assert (found["key_id"], found["keys"]) == (known["key_id"], known["keys"])
        assert [piece["text"] for piece in found["pieces"]] == [
            piece["text"] for piece in known["pieces"]
        ]
        assert all(piece["score"] is None and not piece["details"] for piece in found["pieces"])
        assert all(piece["valid"] is None for piece in found["pieces"])
        assert found["statistics"] == {}
        assert (found["z"], found["tail_estimate"], found["references"]) == (None, None, 0)
        assert str(known["p_value"]) not in found["reason"]
    assert answer["results"][0]["p_value"] == max(1e-6, rung(exact[0]["p_value"], top=0.0001) or 1)
    assert [found["p_value"] for found in answer["results"][1:]] == [None, None]


@pytest.mark.parametrize("detail", ["verdict", "p_value", "scores"])
def test_what_limits_a_verdict_is_told_to_everybody(detail: Detail) -> None:
    warnings = (DetectionWarning("language", "The text does not look like English."),)
    excluded = (ExcludedKey("hm-0123456789ab", "simmark", "keyless"),)
    told = disclosed(verdict(warnings=warnings, excluded=excluded), detail, top=0.01)
    assert told.warnings == warnings
    assert told.excluded == excluded


def test_strangers_are_judged_at_a_hundredth_of_the_level_and_the_operator_at_the_level(
    serve: Serve, home: Home
) -> None:
    """Whoever asks about enough texts finds some that reach a level, and can join them."""
    texts = [plain(seed) for seed in range(200)]
    operator = home.let_in("operator", "detect", "admin")
    stranger = home.let_in("stranger", "detect")
    served = serve(api_keys=home.api_keys, limits={"texts_per_minute": 1000, "texts": 200})

    def found(token: str) -> list[bool]:
        headers = {"Authorization": f"Bearer {token}"}
        results = served.post(DETECT, {"texts": texts}, headers=headers).json()["results"]
        return [result["watermarked"] or bool(result["passages"]) for result in results]

    assert any(found(operator)), "by chance, of 200"
    assert not any(found(stranger))
    (verdict,) = ask(serve(**PUBLIC), marked())["results"]
    assert (verdict["watermarked"], verdict["level"]) == (True, 0.0001)
    lax = serve(**PUBLIC, policy={"detection_level": 0.05})
    assert ask(lax, plain())["results"][0]["level"] == 0.05


def test_texts_are_counted_by_the_day(serve: Serve) -> None:
    served = serve(**PUBLIC, limits={"texts_per_day": 3})
    ask(served, plain(1), plain(2))
    refused = served.post(DETECT, {"texts": [plain(3), plain(4)]})
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 3600
    ask(served, plain(3))


def test_the_ratio_of_weak_evidence_tells_no_more_of_the_p_value_than_the_level() -> None:
    exact = Verdict(
        watermarked=None,
        p_value=0.0012,
        joint_p_value=0.0013,
        reason="p = 0.0012",
        level=0.01,
        statistic="likelihood",
        evidence=Evidence("sentence", (), None, 0.8),
        pieces=("One.", "Two."),
        key_id="hm-0123456789ab",
        power_as_written=0.217,
        power_reworded=0.021,
        likelihood_ratio=63.2,
    )
    told = disclosed(exact, "verdict", top=0.01)
    assert (told.power_as_written, told.power_reworded) == (0.2, 0.05)
    assert told.likelihood_ratio == 20.0, "of reaching the level: 0.217 over 0.01"
    assert "0.0012" not in told.reason
    assert disclosed(exact, "p_value", top=0.01).likelihood_ratio == 63.2


@pytest.mark.parametrize("detail", ["verdict", "p_value", "scores"])
def test_of_several_keys_strangers_are_told_the_one_that_was_found(detail: Detail) -> None:
    """Texts without a mark, put together by the key that they are nearest to, forge its mark."""
    plain_text = {"watermarked": False, "p_value": 0.4, "joint_p_value": 0.5, "passages": ()}
    nearest = verdict(keys=30, label="2026-05", **plain_text)
    told = disclosed(nearest, detail, top=0.01)
    is_exact = detail != "verdict"
    assert (told.key_id, told.label) == ((nearest.key_id, "2026-05") if is_exact else (None, None))
    assert disclosed(verdict(**plain_text), detail, top=0.01).key_id == nearest.key_id
    for found in (
        verdict(keys=30, joint_p_value=0.0004),
        verdict(keys=30, watermarked=False, p_value=0.2, joint_p_value=0.004),
        verdict(keys=30, watermarked=None, likelihood_ratio=20.0, passages=()),
    ):
        assert disclosed(found, detail, top=0.01).key_id == found.key_id


def test_what_is_attainable_tells_no_more_of_the_p_value() -> None:
    """The p-value of a text may be the smallest that is known to be attainable."""
    deep = verdict(p_value=3e-40, joint_p_value=4e-40, attainable=3e-40)
    told = disclosed(deep, "verdict", top=0.01)
    assert (told.p_value, told.attainable) == (1e-6, 1e-6)
    assert disclosed(deep, "scores", top=0.01).attainable == 3e-40


def test_passages_are_told_by_quarters_of_the_text(serve: Serve) -> None:
    text = " ".join([*sentences(14, 5), marked(160), *sentences(14, 6)])
    (known,) = ask(serve(), text)["results"][0]["passages"]
    result = ask(serve(**PUBLIC, policy=LAX), text)["results"][0]
    (found,) = result["passages"]
    quarters = [round(result["piece_count"] * part / 4) for part in range(5)]
    assert {found["begin"], found["end"]} <= set(quarters)
    assert found["begin"] <= known["begin"] < known["end"] <= found["end"]
    assert found["p_value"] == max(1e-6, rung(known["p_value"], top=0.01) or 1)
    assert (known["begin"], known["end"]) != (found["begin"], found["end"])


def test_a_policy_may_tell_p_values_without_scores(serve: Serve) -> None:
    (known,) = ask(serve(), marked())["results"]
    answer = ask(serve(policy={"detection": "p_value"}), marked())
    (found,) = answer["results"]
    assert answer["detail"] == "p_value"
    assert (found["p_value"], found["reason"]) == (known["p_value"], known["reason"])
    assert all(piece["score"] is None for piece in found["pieces"])
    assert found["statistics"] == {}
    open_to_all = serve(**PUBLIC, policy={"detection": "scores"})
    assert ask(open_to_all, marked())["detail"] == "scores"


def test_the_operator_is_told_everything_and_asks_freely(serve: Serve, home: Home) -> None:
    tokens = {name: home.let_in(name, *scopes) for name, scopes in
              {"operator": ("detect", "admin"), "website": ("detect",)}.items()}  # fmt: skip
    served = serve(
        host="0.0.0.0", api_keys=home.api_keys, limits={"texts_per_minute": 4, "near_copies": 1}
    )
    served.token = tokens["website"]
    assert ask(served, marked())["detail"] == "verdict"
    served.token = tokens["operator"]
    answer = ask(served, *[f"{marked()} Number {number}." for number in range(8)])
    assert answer["detail"] == "scores"


def test_the_rate_counts_texts(serve: Serve) -> None:
    served = serve(limits={"texts_per_minute": 4})
    assert served.post(DETECT, {"texts": [plain(n) for n in range(5)]}).status_code == 413
    ask(served, *[plain(number) for number in range(3)])
    refused = served.post(DETECT, {"texts": [plain(7), plain(8)]})
    assert refused.status_code == 429
    assert 0 < int(refused.headers["retry-after"]) <= 15
    ask(served, plain(7))


def test_a_level_between_two_rungs_counts_as_the_lower(serve: Serve) -> None:
    served = serve(**PUBLIC, policy=LAX)
    for requested, used in ((0.05, 0.01), (0.01, 0.01), (0.004, 0.001), (1e-4, 1e-4)):
        assert ask(served, plain(), level=requested)["results"][0]["level"] == used
    assert ask(serve(), plain(), level=0.004)["results"][0]["level"] == 0.004


def test_near_copies_are_judged_so_often(serve: Serve) -> None:
    served = serve(**PUBLIC)
    parts = sentences(10)
    versions = [" ".join([*parts[:-1], end]) for end in sentences(12, 9)]
    ask(served, *versions[:6])
    ask(served, versions[2])  # the same question has the same answer
    refused = served.post(DETECT, {"texts": [versions[6]]})
    assert refused.status_code == 429
    assert error_of(refused)["code"] == "near_copy"
    assert int(refused.headers["retry-after"]) > 60
    assert served.post(DETECT, {"text": versions[2], "edits": True}).status_code == 429
    ask(served, plain(7))
    served.address = "10.1.2.3"
    ask(served, versions[6])


def test_a_private_service_remembers_nothing(serve: Serve) -> None:
    served = serve()
    parts = sentences(10)
    ask(served, *[" ".join([*parts[:-1], end]) for end in sentences(12, 9)])


class TestMemory:
    """Each sentence may be in six texts: one, and five near-copies of it."""

    @pytest.fixture
    def now(self) -> list[float]:
        return [1000.0]

    @pytest.fixture
    def memory(self, now: list[float]) -> NearCopies:
        return NearCopies(5, clock=lambda: now[0])

    def test_sentences_in_any_order_are_recognised(self, memory: NearCopies) -> None:
        """A text that reads pair scores has the sentences of others in another order."""
        parts, rng = sentences(80), Random(3)
        shuffled = [" ".join(rng.sample(parts, len(parts))) for _ in range(7)]
        waits = [memory.take("a", text) for text in shuffled]
        assert waits[:6] == [0.0] * 6
        assert waits[6] > 0

    def test_look_alikes_make_no_other_text(self, memory: NearCopies) -> None:
        text, rng = " ".join(sentences(12)), np.random.default_rng(4)
        copies = Homoglyphs(share=0.5).apply([text] * 7, rng=rng)
        assert len(set(copies)) == 7
        waits = [memory.take("a", copy) for copy in copies]
        assert waits[:6] == [0.0] * 6
        assert waits[6] > 0

    def test_case_and_marks_make_no_other_text(self, memory: NearCopies) -> None:
        text = " ".join(sentences(8))
        forms = [text, text.upper(), text.lower(), *(text.replace(".", f" {c}") for c in "!?;")]
        assert [memory.take("a", form) for form in forms] == [0.0] * 6
        assert memory.take("a", text.title()) > 0

    def test_pieces_of_several_texts_are_recognised(self, memory: NearCopies) -> None:
        parts = sentences(40)
        for number in range(6):
            for begin in range(0, 40, 8):
                ending = sentences(2, 50 + 40 * number + begin)
                assert memory.take("a", " ".join([*parts[begin : begin + 8], *ending])) == 0.0
        assert memory.take("a", " ".join(parts[1::4])) > 0

    def test_a_quotation_makes_no_copy(self, memory: NearCopies) -> None:
        """A quarter of each text is the same, as in answers to one assignment."""
        header = sentences(3)
        for number in range(30):
            text = " ".join([*header, *sentences(9, 10 + number)])
            assert memory.take("a", text) == 0.0

    def test_the_memory_lasts_half_a_day_and_at_most_a_day(
        self, memory: NearCopies, now: list[float]
    ) -> None:
        text = " ".join(sentences(8))
        for number in range(6):
            assert memory.take("a", f"{text} {number}") == 0.0
        wait = memory.take("a", f"{text} 7")
        assert wait > 0
        now[0] += DAY / 2 - 1
        assert memory.take("a", f"{text} 7") > 0
        now[0] += DAY / 2 + 1
        assert memory.take("a", f"{text} 7") == 0.0

    def test_no_text_and_no_words(self, memory: NearCopies) -> None:
        for text in ("", "…", "One.", "\ud800"):
            assert memory.take("a", text) == 0.0


def test_rungs_are_never_below_the_p_value() -> None:
    expected = [(0.02, None), (0.01, 0.01), (0.0011, 0.01), (0.001, 0.001), (3e-9, 1e-8)]
    assert [(p, rung(p, top=0.01)) for p, _ in expected] == expected
    for top in (0.01, 0.05, 0.003, 1e-5):
        for step in range(200):
            p_value = top * 0.9**step
            told = rung(p_value, top=top)
            assert told is not None
            assert p_value <= told * (1 + 1e-8)
            assert told < 10.0001 * p_value
            level = level_of(p_value, top=top)
            assert p_value / 10.0001 < level <= p_value * (1 + 1e-8)
    assert rung(0.0, top=0.01) == pytest.approx(1e-300)


def test_an_answer_tells_strangers_no_more_of_its_p_value_than_detection(
    serve: Serve, home: Home
) -> None:
    """A model that writes what it is told to would be an exact detector."""
    token = home.let_in("somebody")
    served = serve(api_keys=home.api_keys, audit={"file": home.audit})
    served.token = token
    answer = served.chat(max_tokens=200)
    mark = answer.json()["choices"][0]["watermark"]
    (record,) = home.records("end")
    exact = record["counts"]["p_value"]
    assert mark["p_value"] == max(1e-6, rung(exact, top=0.01) or 1)
    assert mark["p_value"] != exact
    assert answer.headers["X-Watermark-P-Value"] == str(mark["p_value"])
    assert str(exact) not in answer.text
