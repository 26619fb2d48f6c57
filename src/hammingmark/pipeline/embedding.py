"""The sentences of many texts, embedded in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hammingmark.protocols import FloatArray


def embed_texts(
    texts: Sequence[Sequence[str]], encode: Callable[[list[str]], FloatArray]
) -> list[FloatArray]:
    """The embeddings of each text's sentences, (n, d) each.

    Args:
        texts: the sentences of each text.
        encode: an encoder's method; it is given each different sentence once.
    """
    different = dict.fromkeys(sentence for text in texts for sentence in text)
    row = {sentence: number for number, sentence in enumerate(different)}
    rows = encode(list(different))
    return [rows[[row[sentence] for sentence in text]] for text in texts]
