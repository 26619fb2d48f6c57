"""Loading a model of the transformers library: on use, without running anyone's code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal

from hammingmark.errors import BackendError

LIBRARIES = ("torch", "transformers")
"""What `load` imports."""
Task = Literal["AutoModelForSeq2SeqLM", "AutoModelForMaskedLM", "AutoModelForCausalLM"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model ready to be used.

    Attributes:
        torch: the library.
        tokenizer: text to numbers and back.
        model: in evaluation mode, on its device.
        device: ``"cpu"``, ``"cuda"`` and so on.
    """

    torch: Any
    tokenizer: Any
    model: Any
    device: str

    @contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        """Draw from ``seed`` inside, and restore the caller's own random state afterwards."""
        devices = [self.device] if self.device.startswith("cuda") else []
        with self.torch.random.fork_rng(devices=devices), self.torch.inference_mode():
            self.torch.manual_seed(seed)
            yield


def load(
    task: Task,
    source: str | Path,
    *,
    tokenizer: str | Path | None = None,
    device: str | None = None,
    dtype: str | None = None,
) -> Loaded:
    """Load a tokenizer and a model.

    Weights are read as safetensors or with torch's ``weights_only``, so that a file cannot run
    code. Nothing is fetched for a folder.

    Args:
        task: the class of the transformers library that makes the model.
        source: a folder, a name on the hub, or a GGUF file (which needs the library ``gguf``).
        tokenizer: where the tokenizer lies if not with the model.
        device: by default a CUDA device if there is one, otherwise the processor.
        dtype: ``"bfloat16"`` and so on; by default what the library chooses.

    Raises:
        BackendError: a library is missing, or the model cannot be read.
    """
    try:
        import torch
        import transformers
    except ImportError as error:
        raise BackendError(
            "This attack needs torch and transformers. Install them with: "
            "pip install 'hammingmark[attacks]'"
        ) from error
    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    given = {} if dtype is None else {"dtype": getattr(torch, dtype)}
    try:
        words = _read(transformers.AutoTokenizer, tokenizer or source)
        # The library draws weights before it reads them, which must not use the caller's state.
        with torch.random.fork_rng(devices=[]):
            model = _read(getattr(transformers, task), source, weights_only=True, **given)
        model = model.to(chosen).eval()
    except UnpicklingError as error:
        raise BackendError(
            f"The weights of {str(source)!r} hold more than numbers, perhaps code, and are not "
            "loaded. Use a copy as safetensors."
        ) from error
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        raise BackendError(
            f"Cannot load the model {str(source)!r}: {error}. Give a folder that holds it, or a "
            "name that can be reached from here."
        ) from error
    return Loaded(torch, words, model, chosen)


def _read(auto: Any, source: str | Path, **options: Any) -> Any:
    path = Path(source).expanduser()
    if path.suffix == ".gguf":
        return auto.from_pretrained(
            str(path.parent), gguf_file=path.name, local_files_only=True, **options
        )
    if path.is_dir():
        return auto.from_pretrained(str(path), local_files_only=True, **options)
    if isinstance(source, Path) or str(source).startswith((os.sep, ".", "~")):
        raise OSError("there is no such folder")
    return auto.from_pretrained(source, **options)
