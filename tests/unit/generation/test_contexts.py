"""Texts under a mark that follows the meaning of what stands before: written and read alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np
import pytest
from tests.errors import raises_naming

from hammingmark.detection.detector import Detector
from hammingmark.detection.reader import ContextReader
from hammingmark.detection.search import EveryKey, RankedKeys
from hammingmark.errors import InputError
from hammingmark.generation.generate import GenerationConfig, Writer
from hammingmark.keys.config import EncoderId, TokenizerId
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import BackendCapabilities
from hammingmark.records import Candidate, Generation, Prompt, Request
from hammingmark.testing import FakeBackend, FakeEncoder
from hammingmark.testing.fakes import FakeTokenizer, paragraph
from hammingmark.text.sentencex import SentencexSplitter
from hammingmark.watermarks.sir import PROJECTION, SIR, SIRConfig

PROMPT = Prompt("It was late. The harbour slept.")
ENCODER, TOKENIZER = FakeEncoder(), FakeTokenizer()


@dataclass
class FakeLogitsBackend(FakeBackend):
    """The same, with a tokenizer; logits are left alone."""

    capabilities: BackendCapabilities = field(
        default_factory=lambda: BackendCapabilities(load_tokenizer=lambda: TOKENIZER)
    )


def key(number: int = 1) -> WatermarkKey:
    config = SIRConfig(
        tokenizer=TokenizerId(TOKENIZER.name, TOKENIZER.fingerprint, TOKENIZER.size),
        encoder=EncoderId.of(ENCODER),
        network=PROJECTION,
        chunk_length=4,
        context_chunks=3,
    )
    return WatermarkKey(Secret(bytes([number] * 32)), config)


def continuation(whole: str) -> FakeLogitsBackend:
    """A model that always writes the same text, from wherever it stands."""
    return FakeLogitsBackend(
        sentences=lambda request: whole[len(request.written) :], width=4, parallel=8
    )


def write(backend: FakeLogitsBackend, **options: int) -> Generation:
    config = GenerationConfig(**{"max_tokens": 1000, **options})  # type: ignore[arg-type]
    writer = Writer(backend, SentencexSplitter(), ENCODER, SIR(key()), config)
    return writer.write(PROMPT, seed=1)


WHOLE = paragraph(Random(5))


def test_the_text_is_what_the_model_wrote() -> None:
    whole = f'{WHOLE}\n\nA list -- "of (all) things":\n  * one/two\n\n  * three… Four?  Five!six.'
    generation = write(continuation(whole))
    assert generation.text == whole
    assert "".join(step.text for step in generation.steps) == whole
    assert generation.stopped == "end"
    assert generation.sentences == tuple(SentencexSplitter().split(whole).carrying)
    assert generation.cost.tokens == sum(step.tokens for step in generation.steps)
    assert len(generation.steps) > 5


def test_each_request_is_told_the_context_of_what_is_written() -> None:
    backend, mark = continuation(WHOLE), SIR(key())
    write(backend)
    assert len(backend.drawn) > 5
    for request in backend.drawn:
        context = mark.context(request.written)
        if not context:
            assert request.condition is None
            continue
        assert request.condition is not None
        expected = mark.condition(ENCODER.encode([context]))[0]
        np.testing.assert_array_equal(request.condition, expected)
    contexts = [mark.context(request.written) for request in backend.drawn]
    assert len(set(contexts)) == len(contexts), "a request ends where the context changes"
    assert len({request.seed for request in backend.drawn}) == len(backend.drawn)


def test_detection_reads_the_contexts_that_generation_had() -> None:
    """Token by token: words in lower case are tokens of the model and of the tokenizer alike."""
    backend, mark = continuation(WHOLE.lower()), SIR(key())
    text = write(backend).text
    (read,) = next(ContextReader(TOKENIZER, ENCODER, mark).batches([text]))
    assert "".join(read.pieces) == text
    told: list[Request] = sorted(backend.drawn, key=lambda each: len(each.written))
    place = 0
    for piece, value in zip(read.pieces, read.values, strict=True):
        request = [each for each in told if len(each.written) <= place][-1]
        place += len(piece)
        if piece == ".":
            continue  # the model's token is the word before and the full stop
        if request.condition is None:
            assert not value["context"].any()
        else:
            np.testing.assert_array_equal(
                mark.condition(value["context"][None])[0], request.condition
            )


@pytest.mark.parametrize("limit", [1, 3, 7, 20, 41])
def test_a_text_has_no_more_tokens_than_it_may(limit: int) -> None:
    backend = continuation(WHOLE)
    generation = write(backend, max_tokens=limit)
    assert generation.cost.tokens == limit
    assert len(generation.text.split()) == limit, "the fake's tokens are words"
    assert generation.stopped == "tokens"
    assert WHOLE.startswith(generation.text)
    assert generation.text == generation.text.rstrip()


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_a_text_has_no_more_sentences_than_it_may(limit: int) -> None:
    generation = write(continuation(WHOLE), max_sentences=limit)
    expected = SentencexSplitter().split(WHOLE).carrying[:limit]
    assert list(generation.sentences) == expected
    assert WHOLE.startswith(generation.text)
    assert generation.text.rstrip().endswith(expected[-1])
    assert generation.stopped == "sentences"
    assert "".join(step.text for step in generation.steps) == generation.text


def test_a_sentence_that_ends_where_a_part_does() -> None:
    """The fourth word seals the chunk and ends the sentence: nothing of the next is kept."""
    for whole in ("One two three four. Five six seven eight.", "One two three four.\nFive six."):
        generation = write(continuation(whole), max_sentences=1)
        assert generation.text.rstrip() == "One two three four."
        assert generation.stopped == "sentences"


def test_several_texts_are_embedded_together() -> None:
    encoder = FakeEncoder()
    writer = Writer(
        FakeLogitsBackend(), SentencexSplitter(), encoder, SIR(key()), GenerationConfig()
    )
    together = writer.write_many([PROMPT, Prompt("Another text.")], seed=3)
    alone = writer.write_many([Prompt("Another text.")], seed=3, first=1)
    assert together[1].text == alone[0].text
    assert together[0].text != together[1].text


def test_a_model_that_fails_leaves_what_was_written() -> None:
    backend = continuation(WHOLE)
    backend.fail_after = 3
    generation = write(backend)
    assert generation.stopped == "error"
    assert generation.error == "The model went away."
    assert generation.text
    assert WHOLE.startswith(generation.text)


def test_a_context_that_is_full_ends_the_text() -> None:
    backend = continuation(WHOLE)
    backend.context = 30
    generation = write(backend)
    assert generation.stopped == "error"
    assert "context" in str(generation.error)
    assert WHOLE.startswith(generation.text)


def test_a_writer_without_an_encoder_is_refused() -> None:
    with raises_naming(InputError, "encoder"):
        Writer(FakeLogitsBackend(), SentencexSplitter(), None, SIR(key()))


def test_texts_without_a_context_say_nothing() -> None:
    encoder = FakeEncoder()
    reader = ContextReader(TOKENIZER, encoder, SIR(key()))
    detector = Detector(reader, EveryKey([SIR(key())]))
    verdicts = list(detector.judge_many(["", "Too short.", "One two three four"]))
    assert [verdict.watermarked for verdict in verdicts] == [None] * 3
    assert [verdict.p_value for verdict in verdicts] == [None] * 3
    assert encoder.encoded == [], "no context is embedded that no token has"


def test_a_context_is_embedded_once() -> None:
    encoder = FakeEncoder()
    reader = ContextReader(TOKENIZER, encoder, SIR(key()))
    (first, second) = next(reader.batches([WHOLE, WHOLE]))
    assert len(encoder.encoded) == len(set(encoder.encoded)) > 3
    np.testing.assert_array_equal(first.values, second.values)


def test_many_keys_are_searched() -> None:
    """A text made of tokens that one key of many favours."""
    keys = [key().derive(str(number)) for number in range(40)]
    mark, reader = SIR(keys[17]), ContextReader(TOKENIZER, ENCODER, SIR(key()))
    text = _favoured(mark, words=120)
    search = RankedKeys(SIR(key()), keys)
    verdict = Detector(reader, search).judge(text)
    assert verdict.watermarked
    assert verdict.label == "17"
    assert verdict.keys == 40
    plain = Detector(reader, search).judge(paragraph(Random(9)))
    assert not plain.watermarked


def _favoured(mark: SIR, *, words: int) -> str:
    """Words drawn at random, each the best of four by its bias in its context."""
    rng = Random(3)
    vocabulary = [f" {word}" for word in TOKENIZER.words]
    text = TOKENIZER.words[0]
    for _ in range(words):
        some = rng.sample(vocabulary, 4)
        context = mark.context(text)
        if context:
            bias = mark.condition(ENCODER.encode([context]))[0]
            tokens = [TOKENIZER.encode(each)[0] for each in some]
            best = int(np.argmax(bias[mark.dimensions[tokens]]))
        else:
            best = 0
        text += some[best]
    return text


def test_the_model_sees_its_text_as_it_wrote_it() -> None:
    """Without the space behind the prompt it would leave out such spaces itself."""
    whole = f"\n \n{WHOLE}"
    backend = continuation(whole)
    generation = write(backend)
    assert generation.text == WHOLE
    assert len(backend.drawn) > 5
    assert all(whole.startswith(request.written) for request in backend.drawn)


def test_white_space_alone_does_not_end_a_text() -> None:
    """A part may be a line break: the text goes on behind it, and at its limit it was cut."""
    whole = "One two three four\n\nFive six seven eight\n \nNine ten."
    parts = ["One two three four", "\n", "\n", "Five six seven eight", "\n \n", "Nine ten."]

    class InParts(FakeLogitsBackend):
        def candidate(self, request: Request) -> Candidate:
            (text,) = (parts[n] for n in range(6) if request.written == "".join(parts[:n]))
            words = text.split(" ") if text.strip() else [text]
            pieces = tuple(word + " " * (word is not words[-1]) for word in words)
            cut = len(pieces) >= request.max_tokens
            finished = text == parts[-1] and not cut
            return Candidate(request.number, pieces, finished=finished, truncated=cut)

    backend = InParts()
    generation = write(backend)
    assert (generation.text, generation.stopped) == (whole, "end")
    assert len({request.seed for request in backend.drawn}) == len(backend.drawn) == len(parts)
    cut = write(InParts(), max_tokens=5)
    assert (cut.text, cut.stopped) == ("One two three four", "tokens")
