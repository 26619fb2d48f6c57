"""Texts embedded together have the embeddings that each has alone."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from hammingmark.detection.reader import embed_texts


def test_each_text_has_its_rows_and_no_sentence_is_embedded_twice(make: SimpleNamespace) -> None:
    texts = [["One.", "Two.", "One."], [], ["Two.", "Three."]]
    encoder = make.encoder()
    together = embed_texts(texts, encoder.encode)
    assert encoder.asked == [["One.", "Two.", "Three."]]
    for rows, text in zip(together, texts, strict=True):
        assert rows.shape == (len(text), encoder.dimension)
        assert rows.dtype == np.float32
        assert (rows == make.encoder().encode(text)).all()


def test_no_texts_have_no_rows(make: SimpleNamespace) -> None:
    assert embed_texts([], make.encoder().encode) == []
