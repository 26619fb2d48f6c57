"""Models and tokenizers of the transformers library, loaded without running code from their files.

The source is a folder, a name on the hub, or a GGUF file (which needs the library ``gguf``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal

import numpy as np

from hammingmark.errors import BackendError
from hammingmark.registry import require_libraries

LIBRARIES = ("torch", "transformers")
"""The libraries that `load` imports."""
Task = Literal["AutoModelForSeq2SeqLM", "AutoModelForMaskedLM", "AutoModelForCausalLM"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded model.

    Attributes:
        torch: the library.
        tokenizer: its tokenizer.
        model: the model, in evaluation mode and on its device.
        device: ``"cpu"``, ``"cuda"`` and so on.
    """

    torch: Any
    tokenizer: Any
    model: Any
    device: str

    @contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        """Set torch's seed within a block, and restore the caller's random state afterwards."""
        devices = [self.device] if self.device.startswith("cuda") else []
        with self.torch.random.fork_rng(devices=devices), self.torch.inference_mode():
            self.torch.manual_seed(seed)
            yield


def load(
    task: Task,
    source: str | Path,
    *,
    tokenizer: str | Path | None = None,
    loaded_tokenizer: Any = None,
    device: str | None = None,
    dtype: str | None = None,
) -> Loaded:
    """Load a tokenizer and a model.

    Weights are read as safetensors or with torch's ``weights_only``, so a file cannot run code.
    Nothing is downloaded for a folder.

    Args:
        task: the class of the transformers library for the model.
        source: the model.
        tokenizer: the source of the tokenizer; by default that of the model.
        loaded_tokenizer: the tokenizer, if it is loaded already.
        device: by default a CUDA device if there is one, otherwise the processor.
        dtype: ``"bfloat16"`` and so on; by default the library's choice.

    Raises:
        BackendError: a library is missing, or the model cannot be read.
    """
    require_libraries(LIBRARIES, part="This model", extra="attacks")
    with _translating_errors(source):
        import torch

        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        options = {} if dtype is None else {"dtype": getattr(torch, dtype)}
        text_tokenizer = loaded_tokenizer or read("AutoTokenizer", tokenizer or source)
        # The library draws weights before it reads them, which must not use the caller's state.
        with torch.random.fork_rng(devices=[]):
            model = read(task, source, weights_only=True, **options)
        return Loaded(torch, text_tokenizer, model.to(device).eval(), device)


def read(
    kind: Task | Literal["AutoConfig", "AutoTokenizer"], source: str | Path, **options: Any
) -> Any:
    """Load one object by a class of the transformers library.

    Raises:
        BackendError: the source cannot be read.
    """
    path = Path(source).expanduser()
    name_or_folder = str(path)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise BackendError(f"There is no model file {path}.")
        name_or_folder = str(path.parent)
        options |= {"gguf_file": path.name, "local_files_only": True}
    elif path.is_dir():
        options["local_files_only"] = True
    elif isinstance(source, Path) or source.startswith((os.sep, ".", "~")):
        raise BackendError(f"Cannot load the model {name_or_folder!r}: there is no such folder.")
    with _translating_errors(source):
        import transformers

        with _without_progress_bars(transformers.utils.logging), _fast_gguf():
            return getattr(transformers, kind).from_pretrained(name_or_folder, **options)


@contextmanager
def _without_progress_bars(logging: Any) -> Iterator[None]:
    """Disable the library's progress bars, which would mix with the output of a command."""
    from transformers import modeling_gguf_pytorch_utils as gguf

    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    # This progress bar ignores the setting.
    tqdm, gguf.tqdm = getattr(gguf, "tqdm", None), lambda items, **options: items
    try:
        yield
    finally:
        gguf.tqdm = tqdm
        if enabled:
            logging.enable_progress_bar()


@contextmanager
def _fast_gguf() -> Iterator[None]:
    """Have transformers read a GGUF file in a third of the time, with the same result.

    It parses the file for the configuration and again for the weights, takes slices of a
    `numpy.memmap`, which are several times as slow as those of an array, and makes the table of
    tensor names anew for every module of the model.
    """
    try:
        import gguf
        from gguf.gguf_reader import GGUFReader
        from gguf.tensor_mapping import get_tensor_name_map
    except ImportError:  # transformers says what is missing
        yield
        return

    def set_attribute(reader: Any, name: str, value: Any) -> None:
        mapped = isinstance(value, np.memmap)
        object.__setattr__(reader, name, np.asarray(value) if mapped else value)

    array_reader = type("ArrayReader", (GGUFReader,), {"__setattr__": set_attribute})
    gguf.GGUFReader = lru_cache(maxsize=1)(array_reader)
    gguf.get_tensor_name_map = cache(get_tensor_name_map)
    try:
        yield
    finally:
        gguf.GGUFReader, gguf.get_tensor_name_map = GGUFReader, get_tensor_name_map


@contextmanager
def _translating_errors(source: str | Path) -> Iterator[None]:
    """Raise errors of the library as `BackendError`."""
    try:
        yield
    except UnpicklingError as error:
        raise BackendError(
            f"The weights of {str(source)!r} contain more than tensors, possibly code, and are not "
            "loaded. Use a safetensors copy."
        ) from error
    except (OSError, ValueError, RuntimeError, ImportError, KeyError) as error:
        raise BackendError(
            f"transformers cannot load {str(source)!r}: {error}. Give its folder, or a name on a "
            "hub that can be reached."
        ) from error
