"""From texts to their sentences, and to sentences resampled from the language model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hammingmark.detection.reader import ReadText, embed_texts, require_texts
from hammingmark.generation.config import GenerationConfig
from hammingmark.generation.text import AcceptedText
from hammingmark.generation.unjudged import draw_sentences
from hammingmark.protocols import Backend, Encoder, Splitter
from hammingmark.records import Prompt, Sentences

_DOMAIN = b"hammingmark/sample\x00"


@dataclass(frozen=True)
class SamplingReader:
    """Splits texts, and resamples every sentence but the first from the text before it.

    As in generation, a candidate that has no sentence or repeats the text before it is dropped.

    Attributes:
        splitter: must be the one that marking used.
        encoder: must be the one that marking used.
        backend: the model, which must be the one that marking used.
        count: sentences to draw in place of each.
        config: must have the sampling of texts, the sentence length and the limit of repetition
            that marking used.
    """

    splitter: Splitter
    encoder: Encoder
    backend: Backend
    count: int
    config: GenerationConfig = field(default_factory=GenerationConfig)
    piece = "sentence"
    edits = False

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the encoder."""
        return self.encoder.fingerprint

    def batches(self, texts: Iterable[str]) -> Iterator[list[ReadText]]:
        """Read texts one by one; drawing takes so long that batches would save nothing."""
        for text in require_texts(texts):
            sentences = self.splitter.split(text)
            pieces = sentences.carrying
            samples = self._draw(texts_before(sentences))
            values, *sample_values = embed_texts([pieces, *samples], self.encoder.encode)
            yield [ReadText(tuple(pieces), values, samples=tuple(sample_values))]

    def _draw(self, prefixes: list[str]) -> list[list[str]]:
        """The sentences that the model adds to each prefix of a text, in drawing order."""
        texts = [AcceptedText(Prompt(prefix), self.splitter) for prefix in prefixes]
        indices = [i for i in range(len(texts)) for _ in range(self.count)]
        if not indices:
            return []
        sentences = draw_sentences(
            [texts[i] for i in indices],
            [sample_seed(prefix, draw) for prefix in prefixes for draw in range(self.count)],
            backend=self.backend,
            max_tokens=self.config.max_sentence_tokens,
            sampling=self.config.text_sampling,
        )
        samples: list[list[str]] = [[] for _ in texts]
        for i, sentence in zip(indices, sentences, strict=True):
            if sentence and texts[i].repeated_share(sentence) <= self.config.most_repeated:
                samples[i].append(sentence)
        return samples


def texts_before(sentences: Sentences) -> list[str]:
    """For each sentence that can carry a mark but the first, the text before it.

    It ends with the preceding sentence; a heading between the two is drawn with the second.
    """
    prefixes: list[str] = []
    text = ""
    for unit in sentences.units:
        text += unit.text
        if unit.carries:
            prefixes.append(text)
        text += unit.gap
    return prefixes[:-1]


def sample_seed(before: str, draw: int) -> int:
    """The seed of a draw, which depends only on the text before it and the number of the draw.

    The first four bytes, little-endian and without the highest bit, of::

        SHA-256( "hammingmark/sample" ‖ 0x00 ‖ draw as 8 bytes, little-endian ‖ text in UTF-8 )
    """
    content = before.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(_DOMAIN + draw.to_bytes(8, "little") + content).digest()
    return int.from_bytes(digest[:4], "little") & 0x7FFFFFFF
