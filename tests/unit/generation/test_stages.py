"""Sentences drawn in stages, by a model that goes on in the middle of a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
import pytest

from hammingmark.errors import Failure
from hammingmark.generation.generate import GenerationConfig, Writer
from hammingmark.generation.text import AcceptedText
from hammingmark.keys.config import EncoderId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import BackendCapabilities, Splitter
from hammingmark.records import Candidate, Generation, Prompt, Request, Sampling
from hammingmark.testing import FakeBackend, FakeEncoder
from hammingmark.testing.fakes import ADJECTIVES, NOUNS, PREPOSITIONS, VERBS
from hammingmark.watermarks.bilinear import BilinearConfig, BilinearMark
from hammingmark.watermarks.hamming import HammingConfig, HammingMark

PROMPT = Prompt("It was late. The harbour slept.")
_WORDS = [*NOUNS, *ADJECTIVES, *VERBS, *PREPOSITIONS]
Say = Callable[[str, Random], "str | None"]
PRICE = 0.0  # of a request to `WordByWord`


@pytest.fixture(autouse=True, params=[0.0, 5.0], ids=["a-stage-at-once", "three-at-once"])
def price(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setattr(f"{__name__}.PRICE", request.param)
    value: float = request.param
    return value


def say(text: str, rng: Random) -> str:
    """The next token: a word with its space, or a full stop. Every word of a sentence may end it.

    Args:
        text: prompt, what was written, and the candidate so far.
        rng: decides.
    """
    said = text[text.rfind(". ") + 1 :].split()
    if text.endswith("."):
        return f" {rng.choice(_WORDS).capitalize()}"
    if len(said) >= 5 and rng.random() < 0.07:
        return "."
    return f" {rng.choice(_WORDS)}"


@dataclass
class WordByWord(FakeBackend):
    """Goes on with any text, word by word: the seed and what stands there decide.

    Attributes:
        say: the next token, or None at the end of the text.
    """

    say: Say = say
    capabilities: BackendCapabilities = field(
        default_factory=lambda: BackendCapabilities(
            continues=lambda prompt, sampling: True, request_price=PRICE
        )
    )

    def candidate(self, request: Request) -> Candidate:
        before = request.prompt.text + request.written
        rng = Random(f"{request.seed} {before}")
        pieces: list[str] = []
        while (piece := self.say(before + "".join(pieces), rng)) is not None:
            pieces.append(piece)
            if request.stop_condition("".join(pieces)):
                return Candidate(request.number, tuple(pieces), finished=False)
            if len(pieces) == request.max_tokens:
                return Candidate(request.number, tuple(pieces), finished=False, truncated=True)
        return Candidate(request.number, tuple(pieces), finished=True)

    @property
    def tokens(self) -> int:
        """Tokens of all that came back."""
        return sum(len(self.candidate(request).pieces) for request in self.drawn)


def make_writer(
    splitter: Splitter, backend: FakeBackend, *, acceptance: float = 0.3, **changes: object
) -> Writer:
    encoder = FakeEncoder()
    rule = BilinearConfig(encoder=EncoderId.of(encoder), acceptance=acceptance)
    key = WatermarkKey(Secret(bytes(range(32))), rule)
    usual = GenerationConfig(max_sentences=8, max_tokens=10_000, stage_tokens=4)
    config = replace(usual, **changes)  # type: ignore[arg-type]
    return Writer(backend, splitter, encoder, BilinearMark(key), config)


def is_staged(backend: FakeBackend) -> bool:
    """Whether anything was drawn from the middle of a sentence."""
    return any(request.max_tokens <= 16 for request in backend.drawn)


def shortest_first(asked: list[Request]) -> list[Request]:
    return sorted(asked, key=lambda request: (request.max_tokens, -request.number))


def check(
    splitter: Splitter, writer: Writer, generation: Generation, *, is_cut: bool = False
) -> None:
    """Detection reads what was accepted, with the same scores.

    A sentence that was cut after it was judged has no score any more, a remainder has none yet.
    """
    assert tuple(splitter.split(generation.text).carrying) == generation.sentences
    assert "".join(step.text for step in generation.steps) == generation.text
    assert isinstance(writer.encoder, FakeEncoder)
    assert isinstance(writer.watermark, BilinearMark)
    evidence = writer.watermark.read(writer.encoder.encode(generation.sentences)).evidence
    steps = [step for step in generation.steps if step.sentence]
    assert [step.sentence for step in steps] == list(generation.sentences) or is_cut
    for step, score in zip(steps, evidence.scores, strict=True):
        if is_cut and step.accepted is None:
            continue
        assert step.accepted == score.valid
        assert step.score == score.score


def test_every_accepted_sentence_counts_at_detection(splitter: Splitter) -> None:
    for seed in range(4):
        backend = WordByWord()
        writer = make_writer(splitter, backend)
        generation = writer.write(PROMPT, seed=seed)
        assert is_staged(backend)
        assert (generation.stopped, len(generation.sentences)) == ("sentences", 8)
        check(splitter, writer, generation)
        assert all(step.accepted for step in generation.steps), "the budget is ample"


def test_the_same_text_is_written_at_every_width(splitter: Splitter) -> None:
    texts = set()
    for backend in (
        WordByWord(),
        WordByWord(width=2),
        WordByWord(width=8),
        WordByWord(width=8, order=shortest_first),
        WordByWord(width=8, order=lambda asked: asked[::-1]),
    ):
        generation = make_writer(splitter, backend).write(PROMPT, seed=3)
        texts.add((generation.text, generation.cost.drawn_tokens, generation.cost.candidates))
        assert max(session.most for session in backend.sessions) <= backend.width
    assert len(texts) == 1


def test_wider_takes_fewer_steps(splitter: Splitter) -> None:
    """Otherwise the test above would not try anything."""
    steps = {1: 0, 8: 0}
    for width in steps:
        for seed in range(6):
            backend = WordByWord(width=width)
            generation = make_writer(splitter, backend).write(PROMPT, seed=seed)
            steps[width] += backend.steps
            assert (generation.cost.spare > 0) is (width > 1)
    assert steps[8] < 0.85 * steps[1]


def test_many_prompts_get_the_texts_they_would_get_in_any_company(splitter: Splitter) -> None:
    prompts = [Prompt(f"It was late on day {i}. The harbour slept.") for i in range(4)]
    together = make_writer(splitter, WordByWord(width=2), max_sentences=4).write_many(
        prompts, seed=9
    )
    backend = WordByWord(width=8, order=shortest_first)
    wide = make_writer(splitter, backend, max_sentences=4).write_many(prompts, seed=9)
    alone = [
        make_writer(splitter, WordByWord(), max_sentences=4).stream(prompt, seed=9, first=number)
        for number, prompt in enumerate(prompts)
    ]
    for run in alone:
        assert list(run)
    texts = [generation.text for generation in together]
    assert len(set(texts)) == 4
    assert texts == [generation.text for generation in wide]
    assert texts == [run.generations()[0].text for run in alone]


@pytest.mark.parametrize("width", [1, 3])
def test_the_tokens_of_the_cost_are_those_that_the_model_handed_over(
    splitter: Splitter, width: int
) -> None:
    backend = WordByWord(width=width)
    generation = make_writer(splitter, backend).write(PROMPT, seed=5)
    cost = generation.cost
    assert cost.drawn_tokens + cost.spare_tokens == backend.tokens
    assert cost.drawn_tokens == sum(step.drawn_tokens for step in generation.steps)
    assert cost.candidates == sum(step.candidates for step in generation.steps)
    assert cost.tokens == sum(step.tokens for step in generation.steps)
    assert cost.tokens == len(generation.text.replace(".", " .").split())
    assert cost.passed == cost.constrained == 8
    assert cost.tried <= cost.candidates


def test_stages_take_fewer_tokens_than_whole_sentences(splitter: Splitter) -> None:
    drawn = {}
    for stage in (0, 4):
        writer = make_writer(
            splitter, WordByWord(), acceptance=0.15, stage_tokens=stage, budget=200
        )
        texts = [writer.write(PROMPT, seed=seed) for seed in range(5)]
        assert not any(each.cost.fallbacks for each in texts)
        drawn[stage] = np.mean([each.cost.drawn_tokens / each.cost.tokens for each in texts])
    print(drawn)
    assert drawn[4] < 0.85 * drawn[0]


def test_a_budget_is_kept_and_the_best_whole_sentence_is_taken(splitter: Splitter) -> None:
    """Under a rule that accepts hardly anything; whole sentences take half of the draws."""
    fell_back = 0
    for seed in range(3):
        backend = WordByWord()
        writer = make_writer(splitter, backend, acceptance=0.02, budget=2, max_sentences=3)
        generation = writer.write(PROMPT, seed=seed)
        check(splitter, writer, generation)
        assert (generation.stopped, len(generation.sentences)) == ("sentences", 3)
        assert len(backend.drawn) <= 3 * 2 * (2 * 22 // 4), "twice the budget at the very most"
        refused = [step for step in generation.steps if not step.accepted]
        assert generation.cost.fallbacks == len(refused)
        fell_back += len(refused)
    assert fell_back >= 5


def test_the_fallback_is_the_best_of_the_whole_sentences_that_were_read(
    splitter: Splitter,
) -> None:
    """Every candidate ends within the first stage, so that all are whole or nearly."""

    def short(text: str, rng: Random) -> str:
        said = text[text.rfind(".") + 1 :].split()
        if len(said) == 3:
            return "."
        word = rng.choice(_WORDS)
        return f" {word if said else word.capitalize()}"

    fell_back = 0
    for seed in range(5):
        backend = WordByWord(say=short)
        writer = make_writer(splitter, backend, acceptance=0.02, budget=3, max_sentences=1)
        generation = writer.write(PROMPT, seed=seed)
        assert isinstance(writer.watermark, BilinearMark)
        drawn = [backend.candidate(each).text for each in backend.drawn if not each.written]
        heads = [text[: text.index(".") + 1] for text in drawn]
        scores = writer.watermark.choose(None, FakeEncoder().encode(heads)).scores
        assert generation.steps[0].score == max(scores)
        if generation.cost.fallbacks:
            fell_back += 1
            assert len(heads) == 3 * 22 // 4
    assert fell_back >= 3


def test_a_model_that_can_only_repeat_itself_goes_on(splitter: Splitter) -> None:
    """A copy is kept when there is nothing else, as with whole candidates."""
    words = ["The", "old", "dog", "ran", "home", "again", "that", "day"]

    def again(text: str, rng: Random) -> str:
        said = text[text.rfind(".") + 1 :].split()
        return f" {words[len(said)]}" if len(said) < len(words) else "."

    for stage in (0, 4):
        backend = WordByWord(say=again)
        writer = make_writer(
            splitter, backend, acceptance=0.1, budget=2, max_sentences=4, stage_tokens=stage
        )
        generation = writer.write(PROMPT, seed=1)
        assert (generation.stopped, len(generation.sentences)) == ("sentences", 4)
        assert generation.cost.repeats >= 3
        check(splitter, writer, generation)


def unable() -> FakeBackend:
    """A model that does not go on in the middle of a sentence, and says so."""
    return FakeBackend(capabilities=BackendCapabilities(continues=lambda prompt, sampling: False))


def test_sentences_are_drawn_whole_where_stages_are_not_asked_for_or_not_possible(
    splitter: Splitter,
) -> None:
    backend = WordByWord()
    writer = make_writer(splitter, backend, max_sentences=3)
    writer.write(PROMPT, seed=1)
    assert is_staged(backend), "otherwise this test tries nothing"
    encoder = FakeEncoder()
    key = WatermarkKey(Secret(bytes(32)), HammingConfig(encoder=EncoderId.of(encoder)))
    whole = replace(writer.config, stage_tokens=0)
    greedy = replace(writer.config, text_sampling=Sampling(temperature=0.0))
    narrow = replace(writer.config, text_sampling=Sampling(top_k=1))
    for changes in (
        {"config": whole},
        {"config": greedy},
        {"config": narrow},
        {"watermark": HammingMark(key)},
        {"backend": FakeBackend()},
        {"backend": unable()},
        {"watermark": None},
    ):
        other = replace(writer, **{"backend": WordByWord(), **changes})  # type: ignore[arg-type]
        assert isinstance(other.backend, FakeBackend)
        generation = other.write(PROMPT, seed=1)
        assert len(generation.sentences) == 3
        assert not is_staged(other.backend), changes
        if other.watermark is not None:
            plain = replace(other, config=replace(other.config, stage_tokens=0))
            assert plain.write(PROMPT, seed=1).text == generation.text


@pytest.mark.parametrize("limit", [5, 23, 60])
def test_no_more_tokens_are_written_than_asked_for(splitter: Splitter, limit: int) -> None:
    for seed in range(3):
        writer = make_writer(splitter, WordByWord(), max_tokens=limit, max_sentences=None)
        generation = writer.write(PROMPT, seed=seed)
        assert generation.stopped == "tokens"
        assert generation.cost.tokens <= limit
        assert len(generation.text.replace(".", " .").split()) <= limit
        check(splitter, writer, generation, is_cut=True)  # a short remainder is not judged


@pytest.mark.parametrize("left", [4, 5, 9])
def test_a_fragment_has_the_budget_of_its_length(splitter: Splitter, left: int) -> None:
    drawn = []
    for seed in range(3):
        writer = make_writer(
            splitter, WordByWord(), acceptance=0.02, max_tokens=left, budget=8, stage_tokens=3
        )
        drawn.append(writer.write(PROMPT, seed=seed).cost.drawn_tokens)
    # A stage has three tokens, the first one four, and one more draw may lead to the end.
    assert max(drawn) <= 8 * left * 4 / 3 + left
    assert max(drawn) > 4 * left, "most of them are refused"


def test_a_remainder_too_short_for_a_sentence_is_drawn_once(splitter: Splitter) -> None:
    for limit in (1, 2, 3):
        for stage in (0, 3):
            writer = make_writer(
                splitter, WordByWord(), acceptance=0.02, max_tokens=limit, stage_tokens=stage
            )
            cost = writer.write(PROMPT, seed=1).cost
            assert (cost.candidates, cost.drawn_tokens, cost.tokens) == (1, limit, limit)
            assert cost.constrained == 0
            judging = replace(writer, config=replace(writer.config, min_sentence_tokens=1))
            assert judging.write(PROMPT, seed=1).cost.constrained == 1


def test_a_text_that_is_handed_over_in_one_piece_keeps_its_limit(splitter: Splitter) -> None:
    class InOnePiece(WordByWord):
        def candidate(self, request: Request) -> Candidate:
            candidate = super().candidate(request)
            return replace(candidate, pieces=(candidate.text,) if candidate.pieces else ())

    def endless(text: str, rng: Random) -> str:
        word = rng.choice(_WORDS)
        return f" {word.capitalize() if text.endswith('.') else word}"

    writer = make_writer(splitter, InOnePiece(say=endless), max_tokens=40, max_sentences=None)
    generation = writer.write(PROMPT, seed=1)
    assert generation.stopped == "tokens"
    assert len(generation.text.split()) <= 2 * 40
    check(splitter, writer, generation)


def test_a_sentence_without_an_end_is_refused(splitter: Splitter) -> None:
    writer = make_writer(
        splitter,
        WordByWord(say=lambda text, rng: f" {rng.choice(_WORDS)}"),
        max_sentence_tokens=20,
        budget=2,
    )
    generation = writer.write(PROMPT, seed=1)
    assert (generation.text, generation.stopped) == ("", "error")
    assert generation.cost.misfits > 0


def test_a_model_that_ends_its_text_in_the_middle_of_a_stage(splitter: Splitter) -> None:
    """Behind a sentence or inside one: what stands there is judged, and the text is over."""

    def ends(text: str, rng: Random) -> str | None:
        return None if rng.random() < 0.04 else say(text, rng)

    stopped = []
    for seed in range(6):
        backend = WordByWord(say=ends)
        writer = make_writer(splitter, backend)
        generation = writer.write(PROMPT, seed=seed)
        check(splitter, writer, generation)
        assert generation.text == generation.text.rstrip()
        assert generation.cost.drawn_tokens + generation.cost.spare_tokens == backend.tokens
        stopped.append(generation.stopped)
    assert stopped.count("end") >= 3


def test_a_model_that_says_nothing_ends_the_text(splitter: Splitter) -> None:
    generation = make_writer(splitter, WordByWord(say=lambda text, rng: None)).write(PROMPT, seed=1)
    assert (generation.text, generation.stopped) == ("", "end")


def test_trouble_in_the_middle_of_a_sentence_ends_the_text(splitter: Splitter) -> None:
    class Full(WordByWord):
        def candidate(self, request: Request) -> Candidate:
            candidate = super().candidate(request)
            if len(request.written.split()) < 60:
                return candidate
            return replace(
                candidate,
                pieces=(),
                truncated=False,
                failure=Failure("context_overflow", "The context is full."),
            )

    writer = make_writer(splitter, Full(), max_sentences=None)
    generation = writer.write(PROMPT, seed=1)
    assert (generation.stopped, generation.error) == ("error", "The context is full.")
    assert generation.sentences
    check(splitter, writer, generation)


def test_white_space_at_the_end_of_a_beginning_is_not_doubled(splitter: Splitter) -> None:
    """A model whose spaces are tokens of their own, and one whose words end with their space."""

    def apart(text: str, rng: Random) -> str:
        return say(text, rng).strip() if text[-1:].isspace() else _space(say(text, rng))

    def _space(piece: str) -> str:
        return piece if piece == "." else " "

    def behind(text: str, rng: Random) -> str:
        piece = say(text.rstrip(), rng)
        return piece.lstrip() + " " if text[-1:].isspace() else f"{piece} "

    for speaks in (apart, behind):
        backend = WordByWord(say=speaks)
        writer = make_writer(splitter, backend, max_sentences=4)
        generation = writer.write(PROMPT, seed=2)
        assert len(generation.sentences) == 4
        assert not any("  " in request.written for request in backend.drawn)
        assert not any(request.written[-1:].isspace() for request in backend.drawn)
        assert "  " not in generation.text
        check(splitter, writer, generation)


def test_a_heading_is_not_cut_where_a_stage_ends(splitter: Splitter) -> None:
    """It cannot be judged: the sentence behind it is."""
    heading = "\n\n## The long history of the old stone harbour near the northern market\n\n"

    def headed(text: str, rng: Random) -> str:
        if text.endswith("slept."):
            return "\n\n##"
        line = text.rpartition("\n")[2]
        if line.startswith("##"):
            words = heading.split()
            said = len(line.split())
            return f" {words[said]}" if said < len(words) else "\n\n"
        if text.endswith("\n\n"):
            return rng.choice(_WORDS).capitalize()
        return say(text, rng)

    for width in (1, 4):
        writer = make_writer(splitter, WordByWord(say=headed, width=width), max_sentences=3)
        generation = writer.write(PROMPT, seed=1)
        assert generation.stopped == "sentences"
        assert generation.text.startswith(heading.strip() + "\n\n")
        assert generation.steps[0].sentence
        check(splitter, writer, generation)


def test_a_language_without_spaces_is_written_in_stages_too(splitter: Splitter) -> None:
    signs = [chr(code) for code in range(0x4E00, 0x4E60)]

    def chinese(text: str, rng: Random) -> str:
        long = len(text) - text.rfind("。") > 9
        return "。" if long and rng.random() < 0.08 else rng.choice(signs)

    writer = make_writer(splitter, WordByWord(say=chinese), max_sentences=3)
    generation = writer.write(Prompt("天黑了。"), seed=1)
    assert len(generation.sentences) == 3
    check(splitter, writer, generation)


def test_titles_and_initials_do_not_end_a_sentence(splitter: Splitter) -> None:
    text = AcceptedText(PROMPT, splitter)
    for whole in ("It rose.", "Did it rise?", "It rose!", "It cost 3.", "He left at 5 p.m."):
        assert text.may_be_complete(whole), whole
        assert text.read_prefix(whole) == (whole, True)
    for part in ("I met Mr.", "He saw Dr.", "He wrote to J.", "It went to St.", "It rose", "..."):
        assert not text.may_be_complete(part), part
    assert text.read_prefix("I met Mr.") == ("I met Mr.", False)


def test_a_prefix_is_read_as_it_stands(splitter: Splitter) -> None:
    text = AcceptedText(PROMPT, splitter)
    assert text.read_prefix(" The river ro") == ("The river ro", False)
    assert text.read_prefix("## The old") == ("", False), "nothing that carries a mark"
    assert text.read_prefix("## The old\n\nThe river ro") == ("The river ro", False)
    assert text.read_prefix("") is None
    assert text.read_prefix("The river rose. It") is None, "its sentence is over"


def test_a_whole_sentence_that_satisfies_the_rule_is_not_drawn_again(splitter: Splitter) -> None:
    """However long it is: only what follows it is still to be seen."""
    found = 0
    for seed in range(12):
        backend = WordByWord()
        writer = make_writer(splitter, backend, max_sentences=4)
        generation = writer.write(PROMPT, seed=seed)
        assert isinstance(writer.watermark, BilinearMark)
        requests, written, previous = iter(backend.drawn), "", None
        for step in generation.steps:
            for request in requests:
                so_far = request.written + backend.candidate(request).text
                more = so_far.lstrip()[len(written) :]
                first = more.partition(".")[0].strip() + "."
                row = FakeEncoder().encode([first])
                if "." in more and writer.watermark.choose(previous, row).accepted:
                    assert first == step.sentence
                    found += 1
                if "." in more.rstrip(".") and first == step.sentence:
                    break  # the next sentence was seen to begin
            written += step.text
            previous = FakeEncoder().encode([step.sentence])[0]
    assert found >= 48


TALE = (
    "The silver river froze at 3.5 degrees. Mr. Brown slept near the old mill! Nobody saw it.\n\n"
    "The bells of the town rang, and all was quiet."
)


@dataclass
class Teller(FakeBackend):
    """Tells one tale whatever the seed, in the middle of a sentence too.

    Attributes:
        careless: whether it leaves out the space before a new sentence.
    """

    careless: bool = False
    capabilities: BackendCapabilities = field(
        default_factory=lambda: BackendCapabilities(continues=lambda prompt, sampling: True)
    )

    def _text(self, request: Request, *, turns: str, begun: str) -> str:
        rest = TALE[len(request.written) :]
        ended = self.careless and request.written.endswith((".", "!"))
        return rest.lstrip(" ") if ended else rest


@pytest.mark.parametrize("careless", [False, True])
@pytest.mark.parametrize("stage", [0, 3])
def test_a_text_ends_before_a_string_wherever_that_begins(
    splitter: Splitter, stage: int, careless: bool
) -> None:
    """In one stage or sentence and ends in another: nothing of it is left, and nothing counted."""
    writer = make_writer(
        splitter, Teller(careless=careless), budget=2, max_sentences=None, stage_tokens=stage
    )
    whole = writer.write(PROMPT, seed=1)
    assert whole.text == TALE
    places = range(0, len(TALE), 3)
    strings = {TALE[place : place + length] for place in places for length in (2, 9, 40)}
    for string in strings:
        stopping = replace(writer, config=replace(writer.config, stop=(string, "never")))
        run = stopping.stream(PROMPT, seed=1)
        steps = tuple(run)
        (generation,) = run.generations()
        assert generation.text == TALE[: TALE.index(string)].rstrip(), string
        assert generation.steps == steps, "nothing that was released is changed"
        assert (generation.stopped, generation.error) == ("end", None)
        check(splitter, stopping, generation, is_cut=True)
        cost = generation.cost
        assert cost.tokens == sum(step.tokens for step in generation.steps)
        assert abs(cost.tokens - len(generation.text.split())) <= 2, "a part of a word is a token"
        assert cost.constrained == sum(step.accepted is not None for step in generation.steps)
        refused = [step for step in generation.steps if step.accepted is False]
        assert cost.insisted == sum(step.insisted for step in refused)
        assert cost.fallbacks == len(refused) - cost.insisted


def test_a_model_that_has_a_choice_never_writes_a_string_to_stop_at(splitter: Splitter) -> None:
    """And says of every sentence what detection will say of it."""
    writer = make_writer(splitter, WordByWord(), max_sentences=4)
    whole = writer.write(PROMPT, seed=3).text
    stopped = set()
    for place in range(5, len(whole), 17):
        string = whole[place : place + 12]
        stopping = replace(writer, config=replace(writer.config, stop=(string,)))
        generation = stopping.write(PROMPT, seed=3)
        assert string not in generation.text
        check(splitter, stopping, generation, is_cut=True)
        stopped.add(generation.stopped)
    assert "end" in stopped


def test_a_copy_that_satisfies_the_rule_is_accepted_and_no_fallback(splitter: Splitter) -> None:
    """Every sentence is one or the other, also where a model can only repeat itself."""

    def again(text: str, rng: Random) -> str:
        words = ["The", "old", "dog", "ran", "home", "again", "that", "day"]
        said = text[text.rfind(".") + 1 :].split()
        return f" {words[len(said)]}" if len(said) < len(words) else "."

    accepted = 0
    for stage in (0, 4):
        for number in range(6):
            writer = make_writer(
                splitter, WordByWord(say=again), acceptance=0.5, stage_tokens=stage
            )
            writer = replace(writer, config=replace(writer.config, budget=2, max_sentences=3))
            assert isinstance(writer.watermark, BilinearMark)
            key = WatermarkKey(Secret(bytes([number]) * 32), writer.watermark.key.config)
            generation = replace(writer, watermark=BilinearMark(key)).write(PROMPT, seed=1)
            copies = generation.steps[1:]
            assert generation.cost.repeats > 0
            cost = generation.cost
            assert cost.fallbacks + cost.insisted == sum(
                step.accepted is False for step in generation.steps
            )
            accepted += sum(step.accepted is True for step in copies)
    assert accepted > 0, "otherwise nothing was tried"
