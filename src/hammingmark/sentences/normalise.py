"""The one rule that both sides apply to a text before they read it."""

from __future__ import annotations

from hammingmark.sentences.structure import blocks


def normalise(text: str) -> str:
    r"""Bring a text to the form that is generated, split and detected.

    Characters: NFC, even spaces, straight quotes, nothing invisible. Lines: a paragraph is one
    line however it was wrapped; headings, table rows, rules, list items, quotes and fenced code
    keep lines of their own; a blank line, or many, is ``"\n\n"``. Code between fences stays as
    it is. White space at both ends goes.

    The rule is idempotent, ``normalise(normalise(text)) == normalise(text)``, and takes time
    linear in the length of the text.
    """
    return "".join(block.text + block.gap for block in blocks(text))
