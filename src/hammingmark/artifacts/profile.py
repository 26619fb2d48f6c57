"""Profiles: what natural text looks like to an encoder.

Some methods must know it: where the texts of a language lie (K-SemStamp's centres), along which
directions sentences differ (SimMark's components), how alike neighbouring sentences are. A profile
is fitted once on texts of one's own (``hammingmark profile``); one for the default encoder comes
with the package. A key takes out of it what it needs, and does not need it again.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from hammingmark.artifacts.card import (
    card_content,
    content_hash,
    read_card,
    shipped_card,
    write_card,
)
from hammingmark.errors import InputError
from hammingmark.keys.config import EncoderId, record_from_json
from hammingmark.protocols import FloatArray

FORMAT = "hammingmark-profile"
_TENSORS = ("centres", "components", "mean", "cosines", "distances")
_FOLDER = "profiles"
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a profile comes from.

    Attributes:
        texts: how many.
        sentences: how many they have.
        sha256: of the texts, in hex.
        seed: of the random generator.
        splitter: what found the sentences, and in which language.
        version: of this package.
        scikit_learn: version of the library.
    """

    texts: int
    sentences: int
    sha256: str
    seed: int
    splitter: str
    version: str
    scikit_learn: str


@dataclass(frozen=True, slots=True, eq=False)
class EncoderProfile:
    """What natural text looks like to one encoder.

    Attributes:
        encoder: whose it is.
        centres: of clusters of texts, each the mean of its sentences: unit rows, (k, d).
        components: principal components of sentences, the strongest first, (c, d).
        mean: of sentences, (d,).
        cosines: of neighbouring sentences, an even sample, rising, (s,).
        distances: of neighbouring sentences after ``components``, likewise, (s,).
        provenance: where it comes from.
        name: what a key calls it: a shipped one's name, otherwise the beginning of the SHA-256 of
            its file.
    """

    encoder: EncoderId
    centres: FloatArray
    components: FloatArray
    mean: FloatArray
    cosines: FloatArray
    distances: FloatArray
    provenance: Provenance
    name: str = ""

    def __post_init__(self) -> None:
        d = self.encoder.dimension
        fits = (
            self.centres.ndim == self.components.ndim == 2
            and self.centres.shape[1] == self.components.shape[1] == d
            and self.mean.shape == (d,)
            and self.cosines.ndim == self.distances.ndim == 1
            and min(len(self.cosines), len(self.distances)) > 0
            and all(np.isfinite(getattr(self, name)).all() for name in _TENSORS)
        )
        if not fits:
            raise InputError("The arrays of this profile do not fit each other; fit it again.")


def save_profile(profile: EncoderProfile) -> bytes:
    """A profile as a safetensors file: numbers of 16 bits, and all else as its metadata."""
    about = {"encoder": asdict(profile.encoder), **asdict(profile.provenance)}
    return write_card({name: getattr(profile, name) for name in _TENSORS}, about, kind=FORMAT)


def load_profile(path: Path) -> EncoderProfile:
    """A profile of a file.

    Raises:
        InputError: it cannot be read, or is none.
    """
    content = card_content(path, what="profile")
    try:
        return read_profile(content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def read_profile(content: bytes, *, name: str = "") -> EncoderProfile:
    """The profile that `save_profile` wrote.

    Args:
        content: of the file.
        name: what a key shall call it; by default the beginning of the content's SHA-256.

    Raises:
        InputError: it is none, or damaged.
    """
    try:
        tensors, about = read_card(content, kind=FORMAT)
        arrays = {each: tensors[each] for each in _TENSORS}
        provenance = record_from_json(Provenance, about)
        encoder = record_from_json(EncoderId, about["encoder"])
    except (LookupError, TypeError, ValueError):
        raise InputError(
            "This is no profile of an encoder, or a damaged one; `hammingmark profile` makes one."
        ) from None
    short = name or content_hash(content)
    return EncoderProfile(encoder, provenance=provenance, name=short, **arrays)


def shipped_profile(encoder: EncoderId) -> EncoderProfile | None:
    """The profile of this encoder that comes with the package, if there is one."""
    content = shipped_card(_FOLDER, encoder.name)
    profile = read_profile(content, name=encoder.name) if content else None
    return profile if profile and profile.encoder.fingerprint == encoder.fingerprint else None


def profile_for(encoder: EncoderId, file: str = "", *, method: str) -> EncoderProfile:
    """The profile for a key of this encoder: that of a file, or the shipped one.

    Raises:
        InputError: it is another encoder's, or there is none; says what to do.
    """
    make = f"hammingmark profile TEXTS --encoder {encoder.name} --out FILE"
    if file:
        profile = load_profile(Path(file).expanduser())
        if profile.encoder.fingerprint != encoder.fingerprint:
            theirs = profile.encoder
            raise InputError(
                f"The profile {file} is of the encoder {theirs.name!r} (fingerprint "
                f"{theirs.fingerprint[:12]}), and this key is for {encoder.name!r} "
                f"({encoder.fingerprint[:12]}). Make one with: {make}"
            )
        return profile
    shipped = shipped_profile(encoder)
    if shipped is None:
        raise InputError(
            f"The method {method!r} needs a profile of the encoder {encoder.name!r}, and none "
            f"comes with the package. Make one with `{make}`, then give it to the key with "
            f"`hammingmark keys new --method {method} --encoder {encoder.name} --set profile=FILE`."
        )
    return shipped


def check_profile_name(name: str) -> None:
    """Refuse what a key cannot call a profile, such as the path of its file.

    Raises:
        InputError: it is too long.
    """
    if len(name) > _LONGEST_NAME:
        raise InputError(f"The name of a profile has {_LONGEST_NAME} characters at most.")
