"""A warning where a text is not in the encoder's language."""

from __future__ import annotations

from hammingmark.protocols import Encoder
from hammingmark.sentences.english import is_english
from hammingmark.store.catalogue import CATALOGUE
from hammingmark.store.models import EncoderCard


def foreign(text: str, *, encoder: Encoder) -> str | None:
    """What to say of a text that an encoder of the catalogue was not made to read, if anything."""
    model = CATALOGUE.get(encoder.name)
    card = model.card if model else None
    if not isinstance(card, EncoderCard) or card.language != "en" or is_english(text) is not False:
        return None
    return (
        f"this does not look like English, which is all that the encoder {encoder.name} reads. The "
        "p-value is valid, but the power is reduced."
    )
