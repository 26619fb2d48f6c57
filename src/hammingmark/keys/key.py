"""The secret, and the only place that turns it into numbers.

Everything random that a key decides is read from a SHAKE-256 stream of its own::

    SHAKE-256( "hammingmark/1" ‖ 0x00 ‖ label ‖ 0x00 ‖ index as 8 bytes, little-endian ‖ secret )

A stream of bytes is read as little-endian 32-bit words w; u = (w + 1/2) / 2^32 lies inside
(0, 1), and the normal deviate is the inverse distribution function at u, computed in double
precision by Wichura's rational approximations (AS 241) and rounded once to float32. Only
addition, multiplication, division and the square root are used, which IEEE 754 rounds in one
way, so the numbers are the same on every machine and under every version of numpy.
``docs/keys.md`` has test vectors.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import count
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from hammingmark.errors import InputError
from hammingmark.keys.config import MethodConfig

SCHEME = 2
"""Of key files; those of scheme 1 know one method only. The numbers are the same in both."""
SECRET_BYTES = 32
_DOMAIN = b"hammingmark/1\x00"

Expansion = TypeVar("Expansion")


class Secret:
    """256 random bits that never show themselves."""

    __slots__ = ("_bytes",)

    def __init__(self, value: bytes) -> None:
        self._bytes, size = bytes(value), len(value)
        del value  # a traceback may show what a function holds
        if size != SECRET_BYTES:
            raise InputError(f"A secret is {SECRET_BYTES} bytes long; this one has {size}.")

    @classmethod
    def fresh(cls) -> Secret:
        """A secret from the operating system's source of randomness."""
        return cls(secrets.token_bytes(SECRET_BYTES))

    def reveal(self) -> bytes:
        """The bytes, for writing a key file. Nothing else should call this."""
        return self._bytes

    def stream(self, label: str, size: int, *, index: int = 0) -> bytes:
        """The first ``size`` bytes of the stream called ``label``."""
        head = _DOMAIN + label.encode("ascii") + b"\x00" + index.to_bytes(8, "little")
        return hashlib.shake_256(head + self._bytes).digest(size)

    def normals(self, label: str, size: int, *, index: int = 0) -> NDArray[np.float32]:
        """The first ``size`` standard normal deviates of a stream: (size,)."""
        return _normal_quantile(self.uniforms(label, size, index=index)).astype(np.float32)

    def uniforms(self, label: str, size: int, *, index: int = 0) -> NDArray[np.float64]:
        """The first ``size`` uniform deviates inside (0, 1) of a stream: (size,)."""
        words = np.frombuffer(self.stream(label, 4 * size, index=index), dtype="<u4")
        return (words.astype(np.float64) + 0.5) * 2.0**-32

    def derive(self, label: str) -> Secret:
        """Another secret for a label, from which this one cannot be found.

        It is::

            SHAKE-256( "hammingmark/1" ‖ 0x00 ‖ "derive" ‖ 0x00 ‖ length of the label as 8 bytes,
                       little-endian ‖ secret ‖ label in UTF-8 )

        Raises:
            InputError: it is no label (`as_label`).
        """
        name = as_label(label).encode()
        head = _DOMAIN + b"derive\x00" + len(name).to_bytes(8, "little")
        return Secret(hashlib.shake_256(head + self._bytes + name).digest(SECRET_BYTES))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._bytes, other._bytes)

    def __hash__(self) -> int:
        return hash(self.stream("hash", 8))

    def __repr__(self) -> str:
        return "Secret(hidden)"

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A secret is not pickled, because it would then lie in caches, logs and messages. Give "
            "a worker the key's file, or hammingmark.keys.keyring.to_json(key, with_secret=True)."
        )


def as_label(given: object) -> str:
    """A label as every door takes it: on one line, without spaces around it, in one spelling.

    Raises:
        InputError: it is no text, empty, or holds characters that cannot be seen.
    """
    label = unicodedata.normalize("NFC", given).strip() if isinstance(given, str) else ""
    if not label or not label.isprintable():
        raise InputError(
            "A label for a derived key is a text on one line, not empty, of characters that can "
            "be seen."
        )
    return label


@dataclass(frozen=True)
class WatermarkKey:
    """A secret, and the configuration of the method that it is for.

    Attributes:
        secret: the 256 bits; everything random comes from it.
        config: the method, its parameters, and the parts that it is tied to.
        note: what the owner wrote down about it.
        created: when it was made.
        retired: when it was rotated out; such a key still detects and no longer marks.
        successor: id of the key that took its place.
        parent: id of the key that it was derived from.
        label: by which it was derived.
    """

    secret: Secret = field(repr=False)
    config: MethodConfig
    note: str = ""
    created: datetime = field(default_factory=lambda: _now())
    retired: datetime | None = None
    successor: str | None = None
    parent: str | None = None
    label: str | None = None
    _expanded: dict[Callable[..., Any], Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __repr__(self) -> str:
        return f"WatermarkKey({self.id!r}, method={self.config.method!r})"

    @property
    def id(self) -> str:
        """A public name derived from the secret, which reveals nothing about it."""
        return "hm-" + self.secret.stream("id", 6).hex()

    def expand_once(self, expand: Callable[[WatermarkKey], Expansion]) -> Expansion:
        """What a function of a method makes of this key, made once and kept as long as the key.

        What is kept is as secret as the key, and is not to be changed.
        """
        if expand not in self._expanded:
            self._expanded[expand] = expand(self)
        expansion: Expansion = self._expanded[expand]
        return expansion

    def derive(self, label: str) -> WatermarkKey:
        """A key of its own for a label such as a date, a customer or a document.

        Whoever holds this key can make it again; whoever holds the derived one alone learns
        nothing of this key or of those of other labels.
        """
        label = as_label(label)
        return replace(self, secret=self.secret.derive(label), parent=self.id, label=label)

    def rotate(self) -> tuple[WatermarkKey, WatermarkKey]:
        """This key, retired, and a new one of the same configuration."""
        fresh = WatermarkKey(Secret.fresh(), self.config, self.note)
        return replace(self, retired=_now(), successor=fresh.id), fresh


class ReferenceKeys:
    """Keys drawn like the secret one, under which the same text is scored for comparison.

    They come from a stream that only the holder of the secret can read: a text written against
    known reference keys would break the exchangeability on which the test rests. They are laid
    out dimension by dimension, so that a text whose embeddings span r dimensions needs only r.
    """

    block = 1000
    _kept_blocks = 4

    def __init__(self, secret: Secret, *, bits: int) -> None:
        self._secret = secret
        self._bits = bits
        self._known: dict[int, NDArray[np.float32]] = {}

    def planes(self, block: int, rank: int) -> NDArray[np.float32]:
        """One block of 1,000 keys in the first ``rank`` dimensions, transposed: (rank, 1000 m)."""
        size = self.block * self._bits
        known = self._known.get(block, np.empty((0, size), np.float32))
        if len(known) < rank:
            more = [
                self._secret.normals("reference", size, index=(block << 32) | dimension)
                for dimension in range(len(known), rank)
            ]
            known = np.concatenate([known, np.stack(more)])
            if block < self._kept_blocks:
                self._known[block] = known
        return known[:rank]

    def blocks(self, rank: int) -> Iterator[NDArray[np.float32]]:
        """Block after block in the first ``rank`` dimensions, (rank, 1000 m) each."""
        return (self.planes(block, rank) for block in count())

    def __repr__(self) -> str:
        return f"ReferenceKeys(bits={self._bits})"


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0)


# Wichura (1988), Algorithm AS 241, PPND16. The far tail (p < e^-25) is not needed: u >= 2^-33.
_CENTRE_OVER = (
    2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
    4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
    1.3314166789178437745e2, 3.3871328727963666080e0,
)  # fmt: skip
_CENTRE_UNDER = (
    5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
    2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
    4.2313330701600911252e1, 1.0,
)  # fmt: skip
_TAIL_OVER = (
    7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
    1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
    4.63033784615654529590e0, 1.42343711074968357734e0,
)  # fmt: skip
_TAIL_UNDER = (
    1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
    1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
    2.05319162663775882187e0, 1.0,
)  # fmt: skip
_LN2 = 0.693147180559945309417


def _normal_quantile(u: NDArray[np.float64]) -> NDArray[np.float64]:
    """The standard normal quantile of u in [2^-33, 1 - 2^-33], in portable operations only."""
    q = u - 0.5
    r = 0.180625 - q * q
    z = q * _horner(_CENTRE_OVER, r) / _horner(_CENTRE_UNDER, r)
    tail = np.abs(q) > 0.425
    near = np.minimum(u[tail], 1.0 - u[tail])
    s = np.sqrt(-_portable_log(near)) - 1.6
    size = _horner(_TAIL_OVER, s) / _horner(_TAIL_UNDER, s)
    z[tail] = np.where(q[tail] < 0.0, -size, size)
    return z


def _portable_log(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln x for x > 0, by its exact exponent and the series of atanh: no library's log."""
    fraction, exponent = np.frexp(x)
    s = (fraction - 0.75) / (fraction + 0.75)
    series = _horner(tuple(1.0 / k for k in range(25, 0, -2)), s * s)
    return exponent * _LN2 + (2.0 * s * series + _LOG_THREE_QUARTERS)


_LOG_THREE_QUARTERS = -0.287682072451780927439


def _horner(coefficients: tuple[float, ...], x: NDArray[np.float64]) -> NDArray[np.float64]:
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value *= x
        value += coefficient
    return value
