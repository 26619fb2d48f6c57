"""The secret, and the only place that derives random numbers from it.

Each use of the key reads random numbers from a SHAKE-256 stream of its own::

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
"""The scheme of key files. Scheme 1 had a single method; both derive the same random numbers."""
SECRET_BYTES = 32
_DOMAIN = b"hammingmark/1\x00"

Expansion = TypeVar("Expansion")


class Secret:
    """256 random bits that are never printed."""

    __slots__ = ("_bytes",)

    def __init__(self, value: bytes) -> None:
        self._bytes, size = bytes(value), len(value)
        del value  # a traceback may show the variables of a function
        if size != SECRET_BYTES:
            raise InputError(f"A secret is {SECRET_BYTES} bytes long; this one has {size}.")

    @classmethod
    def fresh(cls) -> Secret:
        """A new secret from the operating system's source of randomness."""
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
        """The derived secret of a label, from which this one cannot be computed.

        It is::

            SHAKE-256( "hammingmark/1" ‖ 0x00 ‖ "derive" ‖ 0x00 ‖ length of the label as 8 bytes,
                       little-endian ‖ secret ‖ label in UTF-8 )

        Raises:
            InputError: the label is invalid (`as_label`).
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
            "Secrets cannot be pickled, because they would end up in caches, logs and messages. "
            "Give workers the key's file, or "
            "hammingmark.keys.keyring.to_json(key, with_secret=True)."
        )


def as_label(value: object) -> str:
    """A normalised label: one line, stripped, in the Unicode form NFC.

    Raises:
        InputError: it is not a text, is empty, or contains characters that are not printable.
    """
    label = unicodedata.normalize("NFC", value).strip() if isinstance(value, str) else ""
    if not label or not label.isprintable():
        raise InputError("A label must be a non-empty line of printable characters.")
    return label


@dataclass(frozen=True)
class WatermarkKey:
    """A secret and the configuration of its method.

    Attributes:
        secret: the 256 bits from which all random numbers are derived.
        config: the method, its parameters and the components it is tied to.
        note: a note of the owner.
        created: when it was made.
        retired: when it was retired; a retired key still detects, but no longer marks.
        successor: id of the key that replaced it.
        parent: id of the master that it was derived from.
        label: the label it was derived by.
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
        """A public identifier derived from the secret; it reveals nothing about the secret."""
        return "hm-" + self.secret.stream("id", 6).hex()

    def expand_once(self, expand: Callable[[WatermarkKey], Expansion]) -> Expansion:
        """What a method computes from this key, such as matrices: computed once and cached.

        The cached value is as secret as the key, and must not be modified. Threads that ask at the
        same time may each compute it, but all of them get the same one.
        """
        if expand not in self._expanded:
            self._expanded.setdefault(expand, expand(self))
        expansion: Expansion = self._expanded[expand]
        return expansion

    def derive(self, label: str) -> WatermarkKey:
        """The derived key of a label, such as a date, a customer or a document.

        The owner of this key can derive it again. A derived key alone reveals nothing about this
        key or the keys of other labels.
        """
        label = as_label(label)
        return replace(self, secret=self.secret.derive(label), parent=self.id, label=label)

    def rotate(self) -> tuple[WatermarkKey, WatermarkKey]:
        """This key, retired, and a new key with the same configuration."""
        successor = WatermarkKey(Secret.fresh(), self.config, self.note)
        return replace(self, retired=_now(), successor=successor.id), successor


class ReferenceKeys:
    """Keys drawn like the secret key, under which a text is scored for comparison.

    They come from a stream that only the owner of the secret can compute: a text written against
    known reference keys would break the exchangeability that the test relies on. They are generated
    dimension by dimension, so a text whose embeddings span r dimensions needs only r of them.
    """

    block = 1000
    _cached_blocks = 4

    def __init__(self, secret: Secret, *, bits: int) -> None:
        self._secret = secret
        self._bits = bits
        self._cache: dict[int, NDArray[np.float32]] = {}

    def planes(self, block: int, rank: int) -> NDArray[np.float32]:
        """One block of 1,000 keys in the first ``rank`` dimensions, transposed: (rank, 1000 m)."""
        size = self.block * self._bits
        planes = self._cache.get(block, np.empty((0, size), np.float32))
        if len(planes) < rank:
            rows = [
                self._secret.normals("reference", size, index=(block << 32) | dimension)
                for dimension in range(len(planes), rank)
            ]
            planes = np.concatenate([planes, np.stack(rows)])
            if block < self._cached_blocks:
                self._cache[block] = planes
        return planes[:rank]

    def blocks(self, rank: int) -> Iterator[NDArray[np.float32]]:
        """All blocks, without end, in the first ``rank`` dimensions: (rank, 1000 m) each."""
        return (self.planes(block, rank) for block in count())

    def __repr__(self) -> str:
        return f"ReferenceKeys(bits={self._bits})"


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0)


# Wichura (1988), Algorithm AS 241, PPND16. The far tail (p < e^-25) is not needed: u >= 2^-33.
_CENTRE_NUMERATOR = (
    2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
    4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
    1.3314166789178437745e2, 3.3871328727963666080e0,
)  # fmt: skip
_CENTRE_DENOMINATOR = (
    5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
    2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
    4.2313330701600911252e1, 1.0,
)  # fmt: skip
_TAIL_NUMERATOR = (
    7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
    1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
    4.63033784615654529590e0, 1.42343711074968357734e0,
)  # fmt: skip
_TAIL_DENOMINATOR = (
    1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
    1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
    2.05319162663775882187e0, 1.0,
)  # fmt: skip
_LN2 = 0.693147180559945309417


def _normal_quantile(u: NDArray[np.float64]) -> NDArray[np.float64]:
    """The standard normal quantile of u in [2^-33, 1 - 2^-33], by portable operations only."""
    q = u - 0.5
    r = 0.180625 - q * q
    z = q * _horner(_CENTRE_NUMERATOR, r) / _horner(_CENTRE_DENOMINATOR, r)
    tail = np.abs(q) > 0.425
    near = np.minimum(u[tail], 1.0 - u[tail])
    s = np.sqrt(-_portable_log(near)) - 1.6
    size = _horner(_TAIL_NUMERATOR, s) / _horner(_TAIL_DENOMINATOR, s)
    z[tail] = np.where(q[tail] < 0.0, -size, size)
    return z


def _portable_log(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln x for x > 0, by its exact exponent and the series of atanh instead of a library's log."""
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
