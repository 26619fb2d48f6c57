"""Pack the additions of a run into the amendments that the package ships, or back.

    python -m research.training.pack training/runs/NAME --base FOLDER --onnx FOLDER --out FILE
    python -m research.training.pack training/runs/NAME --base FOLDER --onnx FOLDER --unpack FILE

The first needs the library ``onnx`` to find the offset of each weight in the base file. Weights are
identified by content: a tensor of the base model is looked up, as it is or transposed, among those
of the graph. The second converts the shipped amendments to a run, from which training can continue.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from hammingmark.models.amend import amend, product

WHOLE = 32_000
"""The largest integer in a factor."""


def places(model: Path, data: bytes) -> list[tuple[int, tuple[int, ...]]]:
    """Offset and shape of every weight in the graph's file of weights."""
    import onnx

    graph = onnx.load(str(model), load_external_data=False).graph
    offsets = []
    for tensor in graph.initializer:
        location = {entry.key: entry.value for entry in tensor.external_data}
        if location and tensor.data_type == onnx.TensorProto.FLOAT:
            offsets.append((int(location["offset"]), tuple(tensor.dims)))
    return offsets


def by_content(
    data: bytes, offsets: list[tuple[int, tuple[int, ...]]]
) -> dict[bytes, tuple[int, tuple[int, ...]]]:
    """The offset and shape of each weight by the hash of its bytes."""
    table = {}
    for offset, shape in offsets:
        size = 4 * int(np.prod(shape))
        table[hashlib.sha256(data[offset : offset + size]).digest()] = (offset, shape)
    return table


def whole_numbers(factor: Any) -> tuple[Any, float]:
    """A factor as integers, and the power of two by which it was multiplied."""
    power = float(2.0 ** np.floor(np.log2(WHOLE / np.abs(factor).max())))
    return np.rint(factor * power).astype(np.int16), power


def unpack(
    amendments: dict[str, Any], base: dict[str, Any], data: bytes
) -> dict[str, NDArray[np.float32]]:
    """The additions that amendments were packed from, up to rounding.

    Args:
        amendments: as shipped, by offset.
        base: the base model's weights, by name.
        data: the content of the base file.
    """
    names = {}
    for name, weight in base.items():
        whole = weight.astype("<f4")
        names[hashlib.sha256(whole.tobytes()).digest()] = name
        if whole.ndim == 2:
            names[hashlib.sha256(np.ascontiguousarray(whole.T).tobytes()).digest()] = name
    additions = {}
    for key, tensor in amendments.items():
        place, _, kind = key.partition(".")
        if kind == "values":
            size = tensor.size
        elif kind == "left":
            right = amendments[f"{place}.right"]
            size = tensor.shape[0] * right.shape[1]
        else:
            continue
        original = data[int(place) : int(place) + 4 * size]
        name = names[hashlib.sha256(original).digest()]
        if kind == "values":
            additions[name] = tensor.astype(np.float32)
            continue
        # Scale the two factors to similar size by a power of two, which is exact.
        scale = float(amendments[f"{place}.scale"][0])
        left_scale = 2.0 ** (np.log2(scale) // 2)
        stem = name.removesuffix(".weight")
        additions[f"{stem}.a"] = (tensor.T * left_scale).astype(np.float32)
        additions[f"{stem}.b"] = (right.T * (scale / left_scale)).astype(np.float32)
    return {name: np.ascontiguousarray(addition) for name, addition in additions.items()}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--base", type=Path, required=True, help="the base model's safetensors")
    parser.add_argument("--onnx", type=Path, required=True, help="the base model's graph")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--out", type=Path, help="the amendments to make")
    way.add_argument("--unpack", type=Path, help="amendments to convert to a run")
    options = parser.parse_args()
    base = load_file(options.base / "model.safetensors")
    if options.unpack:
        data = (options.onnx / "model.onnx_data").read_bytes()
        additions = unpack(load_file(options.unpack), base, data)
        options.run.mkdir(parents=True, exist_ok=True)
        save_file(additions, options.run / "additions.safetensors")
        rank = next(len(each) for name, each in additions.items() if name.endswith(".a"))
        recipe = {"unpacked": options.unpack.name, "rank": rank}
        (options.run / "recipe.json").write_text(json.dumps(recipe) + "\n")
        return
    additions = load_file(options.run / "additions.safetensors")
    data = (options.onnx / "model.onnx_data").read_bytes()
    table = by_content(data, places(options.onnx / "model.onnx", data))
    packed: dict[str, Any] = {}
    lost = 0.0
    for name, tensor in additions.items():
        if name.endswith(".b"):
            continue
        if name.endswith(".a"):
            weight = base[name.removesuffix(".a") + ".weight"].astype("<f4")
            place, shape = table[hashlib.sha256(np.ascontiguousarray(weight.T).tobytes()).digest()]
            left, one = whole_numbers(tensor.T)
            right, other = whole_numbers(additions[name.removesuffix(".a") + ".b"].T)
            scale = 1.0 / (one * other)
            exact = tensor.T @ additions[name.removesuffix(".a") + ".b"].T
            made = product(left, right, scale)
            assert made.shape == shape
            lost = max(lost, float(np.abs(made - exact).max() / np.abs(exact).max()))
            packed |= {
                f"{place}.left": left,
                f"{place}.right": right,
                f"{place}.scale": np.array([scale], np.float32),
            }
        else:
            key = hashlib.sha256(base[name].astype("<f4").tobytes()).digest()
            packed[f"{table[key][0]}.values"] = tensor.astype(np.float32)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: np.ascontiguousarray(each) for name, each in packed.items()}, options.out)
    finished = b"".join(amend(data, options.out.read_bytes()))
    print(f"{options.out}: {options.out.stat().st_size} bytes, {len(packed)} tensors")
    print(f"largest share of a weight's addition lost by rounding: {lost:.1e}")
    print(f"{hashlib.sha256(finished).hexdigest()} {len(finished)} model.onnx_data")


if __name__ == "__main__":
    main()
