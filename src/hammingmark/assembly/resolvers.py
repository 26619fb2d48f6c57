"""Rooms whose parts have short forms beside their registered names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hammingmark.assembly.backends import resolve_backend, resolve_tokenizer
from hammingmark.assembly.encoders import resolve_encoder
from hammingmark.assembly.parts import Resolved

RESOLVERS: Mapping[str, Callable[[str], Resolved]] = {
    "encoders": resolve_encoder,
    "backends": resolve_backend,
    "tokenizers": resolve_tokenizer,
}
