"""Each check fails for a component that breaks its requirement."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from hammingmark import testing
from hammingmark.errors import HammingMarkError
from hammingmark.protocols import BackendCapabilities, Capabilities, FloatArray
from hammingmark.records import Candidate, Request, Sampling, Sentences, Unit
from hammingmark.testing import (
    FakeBackend,
    FakeEncoder,
    FakeSession,
    FakeSplitter,
)
from hammingmark.testing.method_examples import examples_of, under
from hammingmark.watermarks.bilinear import BilinearMark
from hammingmark.watermarks.hamming import HammingMark
from hammingmark.watermarks.kgw import KGW
from hammingmark.watermarks.sir import SIR

NOISE = np.random.default_rng(0)


@dataclass(frozen=True)
class Encoder(FakeEncoder):
    """Changes its embeddings."""

    change: Callable[[FloatArray], FloatArray] = lambda rows: rows

    def encode(self, sentences: Sequence[str]) -> FloatArray:
        return self.change(super().encode(list(sentences))).astype(np.float32)


@dataclass(frozen=True)
class Splitter(FakeSplitter):
    """Changes its units, but not after pickling."""

    change: Callable[[list[Unit]], list[Unit]] = lambda units: units

    def split(self, text: str) -> Sentences:
        return Sentences(tuple(self.change(list(super().split(text).units))))

    def __reduce__(self) -> tuple[type[FakeSplitter], tuple[()]]:
        return FakeSplitter, ()


class Restarting(Splitter):
    """Claims that splitting can restart everywhere."""

    def restarts(self, text: str, place: int) -> bool:
        return True


@dataclass
class Backend(FakeBackend):
    """Changes requests and candidates, and has sessions of another class."""

    read: Callable[[Request], Request] = lambda request: request
    change: Callable[[Candidate], Candidate] = lambda candidate: candidate
    session: type[FakeSession] = FakeSession

    def open(self) -> FakeSession:
        return self.session(self)

    def candidate(self, request: Request) -> Candidate:
        return self.change(super().candidate(self.read(request)))


class Doubling(FakeSession):
    """Returns every candidate twice."""

    def wait(self) -> list[Candidate]:
        return 2 * super().wait()


class Forgetful(FakeSession):
    """Cancels all candidates instead of one."""

    def cancel(self, number: int) -> None:
        self._requests.clear()


class Lingering(FakeSession):
    """Leaves a thread running for each request until the check is over."""

    over = threading.Event()

    def submit(self, request: Request) -> None:
        threading.Thread(target=self.over.wait, daemon=True).start()


class Exhausted(Backend):
    """Draws empty texts after it was closed."""

    def close(self) -> None:
        self.sentences = lambda request: ""


def negated(rows: FloatArray) -> FloatArray:
    """Every second row negated."""
    return rows * np.where(np.arange(len(rows)) % 2, -1.0, 1.0)[:, None]


def merged(units: list[Unit]) -> list[Unit]:
    """The units, merged into one if they are fewer than three."""
    text = " ".join(unit.text for unit in units)
    return [Unit(text, "", carries=True)] if 0 < len(units) < 3 else units


BROKEN: dict[str, Any] = {
    "check_it_is_an_encoder": FakeEncoder(name=""),
    "check_rows_are_unit_vectors": Encoder(change=lambda rows: 2 * rows),
    "check_a_row_does_not_depend_on_the_others": Encoder(change=lambda rows: np.roll(rows, 1, 0)),
    "check_no_sentences_give_no_rows": Encoder(change=lambda rows: rows if rows.size else rows.T),
    "check_the_same_sentences_give_the_same_rows": Encoder(
        change=lambda rows: rows + NOISE.normal(scale=0.01, size=rows.shape)
    ),
    "check_similar_sentences_have_similar_rows": Encoder(change=negated),
    "check_any_string_has_a_unit_vector": Encoder(change=lambda rows: rows * np.nan),
    "check_a_bare_string_is_refused": Encoder(),
    "check_it_is_a_splitter": FakeSplitter(name=""),
    "check_a_normalised_text_splits_into_the_same_units": Splitter(
        change=lambda units: [*units, Unit("More.", "", carries=True)]
    ),
    "check_white_space_stands_in_gaps": Splitter(
        change=lambda units: [Unit(each.text + each.gap, "", True) for each in units]
    ),
    "check_prose_gives_its_sentences_in_order": Splitter(change=lambda units: units[::-1]),
    "check_the_beginning_of_a_text_splits_as_in_the_whole": Splitter(change=merged),
    "check_it_splits_alike_from_where_it_restarts": Restarting(
        change=lambda units: [replace(unit, carries=i > 0) for i, unit in enumerate(units)]
    ),
    "check_it_survives_pickling": Splitter(change=lambda units: units[::-1]),
    "check_it_is_a_backend": FakeBackend(width=9, parallel=8),
    "check_it_can_do_what_it_declares": FakeBackend(
        capabilities=BackendCapabilities(load_tokenizer=FakeEncoder)  # type: ignore[arg-type]
    ),
    "check_what_was_written_is_continued": Backend(read=lambda each: replace(each, written="")),
    "check_a_chat_is_continued_within_the_assistants_message": Backend(
        read=lambda each: replace(each, written="")
    ),
    "check_a_chat_that_ends_with_a_question_is_answered": FakeBackend(
        sentences=lambda request: "" if request.prompt.messages else "Yes."
    ),
    "check_a_stop_condition_ends_a_candidate": Backend(
        read=lambda each: replace(each, stop_condition=lambda text: False)
    ),
    "check_the_token_limit_truncates_a_candidate": Backend(
        change=lambda each: replace(each, truncated=False)
    ),
    "check_a_seed_decides": Backend(read=lambda each: replace(each, seed=0)),
    "check_only_the_likeliest_is_drawn_if_nothing_else_is_left": Backend(
        read=lambda each: replace(each, sampling=Sampling())
    ),
    "check_more_candidates_than_it_draws_at_once_all_come_back": Backend(session=Doubling),
    "check_it_charges_for_what_it_reads_and_writes": FakeBackend(
        capabilities=BackendCapabilities(charges=True)
    ),
    "check_one_of_several_is_cancelled": Backend(session=Forgetful),
    "check_closing_with_running_candidates_leaves_no_thread": Backend(session=Lingering),
    "check_odd_prompts_are_continued": FakeBackend(context=1),
    "check_a_closed_backend_opens_again": Exhausted(),
}
CHECKS: list[Callable[[Any], None]] = [
    *testing.encoder_checks(),
    *testing.splitter_checks(),
    *testing.backend_checks(),
]


@pytest.mark.parametrize("check", CHECKS)
def test_it_fails_where_it_should(check: Callable[[Any], None]) -> None:
    with pytest.raises((AssertionError, HammingMarkError)) as caught:
        check(BROKEN[check.__name__])
    Lingering.over.set()
    assert str(caught.value)


class ShiftedRanking(BilinearMark):
    """Ranks the key after the one that fits a text."""

    def rank(self, keys: Any, texts: Any, *, statistic: str) -> list[list[int]]:
        ranked = super().rank(keys, texts, statistic=statistic)
        return [[(number + 1) % len(keys) for number in each[:1]] for each in ranked]


class ChangingContext(SIR):
    """Does not notice a change of the context."""

    def context_changes(self, text: str) -> Callable[[str], bool]:
        return lambda more: False


def declaring(method: type[Any], **changes: Any) -> type[Any]:
    """The method with other capabilities."""

    class Declaring(method):  # type: ignore[misc]
        @property
        def capabilities(self) -> Capabilities:
            changed = {n: each(self) if callable(each) else each for n, each in changes.items()}
            return replace(super().capabilities, **changed)

    return Declaring


MISDECLARED = {
    "no method for a capability": (
        "it_has_what_its_capabilities_declare",
        declaring(BilinearMark, samples=lambda mark: mark),
    ),
    "both kinds": (
        "it_has_what_its_capabilities_declare",
        declaring(BilinearMark, tokens=lambda mark: mark),
    ),
    "neither kind": (
        "it_has_what_its_capabilities_declare",
        declaring(KGW, tokens=None),
    ),
    "a context that there is not": (
        "it_has_what_its_capabilities_declare",
        declaring(SIR, context=None),
    ),
    "another threshold": (
        "sentences_that_are_drawn_in_stages",
        declaring(BilinearMark, staging_threshold=0.1),
    ),
    "scores that are no deviates": (
        "sentences_that_are_drawn_in_stages",
        declaring(HammingMark, staging_threshold=lambda mark: mark.config.threshold),
    ),
    "edits that are not read": (
        "sentences_that_were_edited",
        declaring(
            BilinearMark, read_edited=lambda mark: lambda values, edits: mark.read(values[::-1])
        ),
    ),
    "parts that are not left out": (
        "sentences_of_which_some_count",
        declaring(BilinearMark, read_part=lambda mark: lambda values, included: mark.read(values)),
    ),
    "another ranking": ("the_key_of_a_text_is_ranked_first", ShiftedRanking),
    "contexts that change": (
        "tokens_have_the_context_of_the_text_before",
        ChangingContext,
    ),
}


@pytest.mark.parametrize("case", MISDECLARED)
def test_a_capability_that_a_method_does_not_have_is_found(case: str) -> None:
    name, method = MISDECLARED[case]
    check = next(run for each, run in testing.method_checks(method) if each.startswith(name))
    with pytest.raises(AssertionError) as caught:
        check()
    assert str(caught.value)


def test_a_misspelt_capability_is_an_error_at_once() -> None:
    method = declaring(BilinearMark, read_edited=lambda mark: mark.read_editted)
    config = next(iter(examples_of(method).values()))
    mark = under(method, config, np.random.default_rng(0))
    with pytest.raises(AttributeError):
        _ = mark.capabilities
    with pytest.raises(TypeError):
        Capabilities(read_editted=None)  # type: ignore[call-arg]
