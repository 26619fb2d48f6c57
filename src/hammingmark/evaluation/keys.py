"""Keys of experiments. Anybody can derive them, so they protect nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import sha256

from hammingmark.assembly.keys import new_key
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.models.catalogue import DEFAULT_GENERATOR
from hammingmark.protocols import Encoder, Tokenizer

UNMARKED = "unmarked"


@dataclass(frozen=True)
class ExperimentKeys:
    """The numbered keys of every point of an experiment.

    A point is ``unmarked``, a method (``bilinear``), a method and a preset (``hamming/paper``), or
    a method and parameters (``hamming/bits=10,threshold=7``).

    Attributes:
        encoder: the encoder of the keys that mark sentences.
        tokenizer: the tokenizer of the keys that mark tokens, or the name of its model.
        name: the experiment's name, from which secrets are derived.
    """

    encoder: Encoder
    tokenizer: Tokenizer | str = f"transformers:{DEFAULT_GENERATOR}"
    name: str = "experiment"
    _templates: dict[str, WatermarkKey] = field(default_factory=dict, repr=False, compare=False)

    def key(self, point: str, number: int) -> WatermarkKey | None:
        """The key of a point by its number; None for ``unmarked``.

        Raises:
            InputError: the method has no such preset or parameter.
            UnknownName: there is no such method.
        """
        if point == UNMARKED:
            return None
        if point not in self._templates:  # loading a tokenizer may take seconds
            self._templates[point] = self._make(point)
        return replace(self._templates[point], secret=self.secret(number))

    def secret(self, number: int) -> Secret:
        """The secret of a number, which the keys of all points share."""
        return Secret(sha256(f"{self.name} {number}".encode()).digest())

    def _make(self, point: str) -> WatermarkKey:
        method, _, rule = point.partition("/")
        parameters = dict(pair.split("=", 1) for pair in rule.split(",") if "=" in pair)
        return new_key(
            self.encoder,
            method=method,
            tokenizer=self.tokenizer,
            preset="default" if parameters or not rule else rule,
            parameters=parameters,
        )
