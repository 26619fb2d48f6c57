"""Networks that map an embedding to the numbers whose signs bias tokens.

They preserve similarity: texts with the same meaning get nearly the same signs, other texts get
unrelated ones. ``python -m research.training.transform`` trains a network for an encoder; the
package ships that of the default encoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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

FORMAT = "hammingmark-transform"
MAKE = "python -m research.training.transform --encoder NAME --out FILE"
_FOLDER = "networks"


@dataclass(frozen=True, slots=True)
class TransformProvenance:
    """The provenance of a network.

    Attributes:
        contexts: number of texts it was trained on.
        sha256: SHA-256 of these texts, in hex.
        seed: seed of the random generator.
        steps: number of training steps.
        loss: loss at the end of training.
        version: version of this package.
        torch: version of the library.
    """

    contexts: int
    sha256: str
    seed: int
    steps: int
    loss: float
    version: str
    torch: str


@dataclass(frozen=True, slots=True, eq=False)
class TransformNetwork:
    """A network for the embeddings of one encoder.

    Attributes:
        encoder: the encoder.
        layers: weights (out, in) and biases (out,): a layer to the inner width, residual blocks,
            and a layer to the numbers whose signs are taken.
        provenance: its provenance.
        digest: the hash by which a key identifies it; empty before it is written.
    """

    encoder: EncoderId
    layers: tuple[tuple[FloatArray, FloatArray], ...]
    provenance: TransformProvenance
    digest: str = ""

    def __post_init__(self) -> None:
        sizes = [self.encoder.dimension]
        for weights, bias in self.layers:
            valid = weights.ndim == 2 and weights.shape[1] == sizes[-1]
            valid = valid and bias.shape == weights.shape[:1] and min(weights.shape) > 0
            if not valid or not (np.isfinite(weights).all() and np.isfinite(bias).all()):
                raise InputError(
                    "The layers of this network do not match each other. Train it again."
                )
            sizes.append(len(bias))
        if len(self.layers) < 2 or len(set(sizes[1:-1])) > 1:
            raise InputError("The inner layers of this network differ in size. Train it again.")

    @property
    def size(self) -> int:
        """The dimension of its output."""
        return len(self.layers[-1][1])


def save_transform(network: TransformNetwork) -> bytes:
    """A network as a safetensors file of 16-bit numbers."""
    arrays = {
        f"{kind}{number}": array
        for number, layer in enumerate(network.layers)
        for kind, array in zip(("weights", "bias"), layer, strict=True)
    }
    about = {"encoder": asdict(network.encoder), **asdict(network.provenance)}
    return write_card(arrays, about, kind=FORMAT)


def read_transform(content: bytes) -> TransformNetwork:
    """The network that `save_transform` wrote.

    Raises:
        InputError: it is not a network, or it is damaged.
    """
    try:
        arrays, about = read_card(content, kind=FORMAT)
        layers = tuple(
            (arrays[f"weights{number}"], arrays[f"bias{number}"])
            for number in range(len(arrays) // 2)
        )
        provenance = record_from_json(TransformProvenance, about)
        encoder = record_from_json(EncoderId, about["encoder"])
    except (LookupError, TypeError, ValueError):
        raise InputError(
            f"This is not a network file, or it is damaged. Train a network with: {MAKE}"
        ) from None
    return TransformNetwork(encoder, layers, provenance, content_hash(content))


def shipped_transform(encoder: EncoderId) -> TransformNetwork | None:
    """The network for this encoder that the package ships, if any."""
    content = shipped_card(_FOLDER, encoder.name)
    network = read_transform(content) if content else None
    return network if network and network.encoder.fingerprint == encoder.fingerprint else None


def transform_for(encoder: EncoderId, file: str = "", *, digest: str = "") -> TransformNetwork:
    """The network for a key of this encoder: that of a file, or the shipped one.

    Args:
        encoder: the encoder of the key.
        file: the file; by default the one that the package ships.
        digest: the digest that it must have; by default any.

    Raises:
        InputError: the network is another one, or there is none; the message says what to do.
    """
    if file:
        network = read_transform(card_content(Path(file).expanduser(), what="network"))
        if network.encoder.fingerprint != encoder.fingerprint:
            raise InputError(
                f"The network {file} is for the encoder {network.encoder.name!r} (fingerprint "
                f"{network.encoder.fingerprint[:12]}), and this key is for {encoder.name!r} "
                f"({encoder.fingerprint[:12]}). Train one with: {MAKE}"
            )
    else:
        shipped = shipped_transform(encoder)
        if shipped is None:
            raise InputError(
                f"The package ships no network for the encoder {encoder.name!r}. Train one with "
                f"`{MAKE}` and name it with --set network=FILE, or use none with "
                "--set network=projection."
            )
        network = shipped
    if digest and network.digest != digest:
        raise InputError(
            f"The key was made with another network than {file or 'the one of this version'}. The "
            f"digest of its network is {digest[:12]}, and that of this one {network.digest[:12]}. "
            "Use the file that the key was made with."
        )
    return network


Layer = tuple[FloatArray, FloatArray]
"""Weights (out, in) and biases (out,)."""


def apply_network(rows: FloatArray, layers: Sequence[Layer]) -> NDArray[np.float64]:
    """Rows (n, d) to (n, o): x = relu(A x), x = x + relu(B x) for each inner layer, C x."""
    first, *blocks, last = [(w.astype(np.float64), b.astype(np.float64)) for w, b in layers]
    x = np.maximum(rows.astype(np.float64) @ first[0].T + first[1], 0.0)
    for weights, bias in blocks:
        x = x + np.maximum(x @ weights.T + bias, 0.0)
    values: NDArray[np.float64] = x @ last[0].T + last[1]
    return values


def balanced_signs(values: NDArray[np.floating]) -> FloatArray:
    """1 for a number above the mean of its row, otherwise -1: (n, o) to the same shape."""
    means = values.mean(axis=1, keepdims=True) if values.size else 0.0
    return np.where(values > means, 1.0, -1.0).astype(np.float32)
