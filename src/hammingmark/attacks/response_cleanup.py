"""Extracting the rewritten text from a chat model's answer."""

from __future__ import annotations

import re

from hammingmark.attacks.segments import Kept

_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"\A```\w*\n(.*?)\n?```\Z", re.DOTALL)
_ASIDE = r"(?:sure|certainly|of course|okay|ok|absolutely|great)\b[\s,.!:]*"
_LABEL = (
    r"\**(?:here(?:['’]s| is| are)\b[^:\n]{0,160}"
    r"|(?:the |my )?(?:rewritten|rewrite|revised|rephrased|paraphrased|reworded)\b[^:\n]{0,50}"
    r"|(?:sentence|text|paragraph|answer|output))\**:\**"
)
_OPENING = re.compile(rf"\A(?:{_ASIDE})?{_LABEL}\s*", re.IGNORECASE)
_REMARK = re.compile(rf"\A{_ASIDE}\n+", re.IGNORECASE)
_ITEM = re.compile(r"\A(?:1[.)]|[-*•])\s+([^\n]+)(?:\n+(?:2[.)]|[-*•])\s.*)?\Z", re.DOTALL)
_SECOND = re.compile(
    r"(?<=[.!?\"”])\s+(?:another|an alternative|alternatively)\b[^.:\n]{0,80}:.*\Z",
    re.DOTALL | re.IGNORECASE,
)
_CLOSING = re.compile(
    r"\n\s*\n\W*(?:note\b|let me know|i hope|please let me|is there anything|feel free)[^\n]*\Z",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\A(?:(?:i['’]m|i am) (?:really |very |so )?sorry\b|sorry\b|i apologi[sz]e\b"
    r"|(?:i['’]m|i am) (?:unable|not able)\b"
    r"|i (?:cannot|can['’]t|can not|won['’]t|will not) "
    r"(?:help|assist|rewrite|rephrase|paraphrase|do|provide|fulfil|comply|answer|create)"
    r"|as an ai\b|as a (?:large )?language model\b)",
    re.IGNORECASE,
)
_QUOTES = (('"', '"'), ("“", "”"), ("'", "'"), ("‘", "’"), ("«", "»"), ("**", "**"))


def clean(answer: str, *, original: str, whole: bool) -> str | Kept:
    """The rewritten text in an answer, or the reason why there is none.

    Anything the original also has is left alone: quotes, an opening that looks like a chat's, an
    apology.

    Args:
        answer: the model's whole answer.
        original: the text that it was asked to rewrite.
        whole: whether the answer may have several paragraphs; otherwise only the first is used.
    """
    text = _THOUGHTS.sub("", answer).strip()
    fence = _FENCE.match(text)
    if fence and not original.startswith("```"):
        text = fence.group(1).strip()
    if _REFUSAL.match(text) and not _REFUSAL.match(original):
        return Kept("refused")
    had_opening = False
    if not _OPENING.match(original) and not _REMARK.match(original):
        text, count = _OPENING.subn("", _REMARK.sub("", text), count=1)
        had_opening = count > 0
    text = _CLOSING.sub("", text).strip()
    if not whole:
        # Keep the first of several announced versions.
        if had_opening:
            text = _ITEM.sub(r"\1", text)
        if not _SECOND.search(original):
            text = _SECOND.sub("", text)
        text = re.split(r"\n\s*\n", text, maxsplit=1)[0]
    text = _unquote(text.strip(), original)
    return text if text else Kept("empty")


def _unquote(text: str, original: str) -> str:
    """Remove quotes around the whole text if the original has none."""
    for opening, closing in _QUOTES:
        inner = text[len(opening) : len(text) - len(closing)]
        if (
            len(text) > len(opening) + len(closing)
            and text.startswith(opening)
            and text.endswith(closing)
            and not original.startswith(opening)
            and opening not in inner
            and closing not in inner
        ):
            return inner.strip()
    return text
