"""Texts to their sentences, and to what a language model would have written in their place."""

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
    """Splits texts, and draws every sentence but the first again after the text before it.

    A candidate is left out where generation would have passed it over: if it has no sentence, or
    says again what stands before.

    Attributes:
        splitter: must be the one that marking used.
        encoder: likewise.
        backend: likewise, the model.
        count: sentences to draw for each.
        config: likewise; how the model draws where it continues a text, the length of a sentence,
            and which repetitions are refused.
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
        """The encoder's."""
        return self.encoder.fingerprint

    def batches(self, texts: Iterable[str]) -> Iterator[list[ReadText]]:
        """Read texts one by one: drawing takes longer than anything that could be shared."""
        for text in require_texts(texts):
            sentences = self.splitter.split(text)
            pieces = sentences.carrying
            pools = self._draw(texts_before(sentences))
            values, *samples = embed_texts([pieces, *pools], self.encoder.encode)
            yield [ReadText(tuple(pieces), values, samples=tuple(samples))]

    def _draw(self, befores: list[str]) -> list[list[str]]:
        """The sentences that the model adds to each of some texts, in drawing order."""
        texts = [AcceptedText(Prompt(before), self.splitter) for before in befores]
        asked = [i for i in range(len(texts)) for _ in range(self.count)]
        if not asked:
            return []
        found = draw_sentences(
            [texts[i] for i in asked],
            [sample_seed(before, draw) for before in befores for draw in range(self.count)],
            backend=self.backend,
            max_tokens=self.config.max_sentence_tokens,
            sampling=self.config.text_sampling,
        )
        pools: list[list[str]] = [[] for _ in texts]
        for i, sentence in zip(asked, found, strict=True):
            if sentence and texts[i].repeated_share(sentence) <= self.config.most_repeated:
                pools[i].append(sentence)
        return pools


def texts_before(sentences: Sentences) -> list[str]:
    """For each sentence that can carry a mark but the first, the text before it.

    It ends with the sentence before: a heading between the two is drawn with the second.
    """
    befores: list[str] = []
    text = ""
    for unit in sentences.units:
        text += unit.text
        if unit.carries:
            befores.append(text)
        text += unit.gap
    return befores[:-1]


def sample_seed(before: str, draw: int) -> int:
    """The seed of a draw, which depends on the text before and the draw's number alone.

    The first four bytes, little-endian and without the highest bit, of::

        SHA-256( "hammingmark/sample" ‖ 0x00 ‖ draw as 8 bytes, little-endian ‖ text in UTF-8 )
    """
    content = before.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(_DOMAIN + draw.to_bytes(8, "little") + content).digest()
    return int.from_bytes(digest[:4], "little") & 0x7FFFFFFF
