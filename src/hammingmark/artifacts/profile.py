"""Profiles: statistics of natural text under an encoder.

Some methods need them: centres of clusters of texts (K-SemStamp), principal components of sentences
(SimMark), similarities of neighbouring sentences. A profile is fitted once on the user's own texts
(``hammingmark profile``); the package ships one for the default encoder. A key contains a copy of
what it needs from the profile.
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
    """The provenance of a profile.

    Attributes:
        texts: number of texts.
        sentences: number of their sentences.
        sha256: SHA-256 of the texts, in hex.
        seed: seed of the random generator.
        splitter: the splitter and its language.
        version: version of this package.
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
    """Statistics of natural text under one encoder.

    Attributes:
        encoder: the encoder.
        centres: centres of clusters of texts, a text being the mean of its sentences: unit rows,
            (k, d).
        components: principal components of sentences, the largest first, (c, d).
        mean: mean of sentences, (d,).
        cosines: cosines of neighbouring sentences, an even sample, ascending, (s,).
        distances: distances of neighbouring sentences projected on ``components``, likewise, (s,).
        provenance: its provenance.
        name: the name in keys: that of a shipped profile, otherwise the prefix of the SHA-256 of
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
        valid = (
            self.centres.ndim == self.components.ndim == 2
            and self.centres.shape[1] == self.components.shape[1] == d
            and self.mean.shape == (d,)
            and self.cosines.ndim == self.distances.ndim == 1
            and min(len(self.cosines), len(self.distances)) > 0
            and all(np.isfinite(getattr(self, name)).all() for name in _TENSORS)
        )
        if not valid:
            raise InputError("The arrays of this profile do not match each other. Fit it again.")


def save_profile(profile: EncoderProfile) -> bytes:
    """A profile as a safetensors file: 16-bit numbers, and everything else as metadata."""
    about = {"encoder": asdict(profile.encoder), **asdict(profile.provenance)}
    return write_card({name: getattr(profile, name) for name in _TENSORS}, about, kind=FORMAT)


def load_profile(path: Path) -> EncoderProfile:
    """The profile in a file.

    Raises:
        InputError: the file cannot be read, or is not a profile.
    """
    content = card_content(path, what="profile")
    try:
        return read_profile(content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def read_profile(content: bytes, *, name: str = "") -> EncoderProfile:
    """The profile that `save_profile` wrote.

    Args:
        content: the content of the file.
        name: its name in keys; by default the prefix of the content's SHA-256.

    Raises:
        InputError: it is not a profile, or it is damaged.
    """
    try:
        tensors, about = read_card(content, kind=FORMAT)
        arrays = {tensor: tensors[tensor] for tensor in _TENSORS}
        provenance = record_from_json(Provenance, about)
        encoder = record_from_json(EncoderId, about["encoder"])
    except (LookupError, TypeError, ValueError):
        raise InputError(
            "This is not a profile, or it is damaged. Make one with `hammingmark profile`."
        ) from None
    name = name or content_hash(content)
    return EncoderProfile(encoder, provenance=provenance, name=name, **arrays)


def shipped_profile(encoder: EncoderId) -> EncoderProfile | None:
    """The profile for this encoder that the package ships, if any."""
    content = shipped_card(_FOLDER, encoder.name)
    profile = read_profile(content, name=encoder.name) if content else None
    return profile if profile and profile.encoder.fingerprint == encoder.fingerprint else None


def profile_for(encoder: EncoderId, file: str = "", *, method: str) -> EncoderProfile:
    """The profile for a key of this encoder: that of a file, or the shipped one.

    Raises:
        InputError: it belongs to another encoder, or there is none; the message says what to do.
    """
    make = f"hammingmark profile TEXTS --encoder {encoder.name} --out FILE"
    if file:
        profile = load_profile(Path(file).expanduser())
        if profile.encoder.fingerprint != encoder.fingerprint:
            other = profile.encoder
            raise InputError(
                f"The profile {file} is for the encoder {other.name!r} (fingerprint "
                f"{other.fingerprint[:12]}), and this key is for {encoder.name!r} "
                f"({encoder.fingerprint[:12]}). Make one with: {make}"
            )
        return profile
    shipped = shipped_profile(encoder)
    if shipped is None:
        raise InputError(
            f"The method {method!r} needs a profile of the encoder {encoder.name!r}, and the "
            f"package ships none. Make one with `{make}`, then make the key with `hammingmark keys "
            f"new --method {method} --encoder {encoder.name} --set profile=FILE`."
        )
    return shipped


def check_profile_name(name: str) -> None:
    """Refuse an invalid name of a profile, such as the path of its file.

    Raises:
        InputError: it is too long.
    """
    if len(name) > _LONGEST_NAME:
        raise InputError(f"The name of a profile may have at most {_LONGEST_NAME} characters.")
