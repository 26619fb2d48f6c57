"""Models and tokenizers of the transformers library: loaded on use, without running anyone's code.

The source is a folder, a name on the hub, or a GGUF file (which needs the library ``gguf``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal

from hammingmark.errors import BackendError
from hammingmark.registry import require_libraries

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
    words: Any = None,
    device: str | None = None,
    dtype: str | None = None,
) -> Loaded:
    """Load a tokenizer and a model.

    Weights are read as safetensors or with torch's ``weights_only``, so that a file cannot run
    code. Nothing is fetched for a folder.

    Args:
        task: the class of the transformers library that makes the model.
        source: of the model.
        tokenizer: where the tokenizer lies if not with the model.
        words: the tokenizer, where it has been read already.
        device: by default a CUDA device if there is one, otherwise the processor.
        dtype: ``"bfloat16"`` and so on; by default what the library chooses.

    Raises:
        BackendError: a library is missing, or the model cannot be read.
    """
    require_libraries(LIBRARIES, part="This model", get="hammingmark[attacks]")
    with _in_words(source):
        import torch

        chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
        given = {} if dtype is None else {"dtype": getattr(torch, dtype)}
        words = words or read("AutoTokenizer", tokenizer or source)
        # The library draws weights before it reads them, which must not use the caller's state.
        with torch.random.fork_rng(devices=[]):
            model = read(task, source, weights_only=True, **given)
        return Loaded(torch, words, model.to(chosen).eval(), chosen)


def read(
    kind: Task | Literal["AutoConfig", "AutoTokenizer"], source: str | Path, **options: Any
) -> Any:
    """What one class of the transformers library makes of a source.

    Raises:
        BackendError: it cannot be read.
    """
    path = Path(source).expanduser()
    place = str(path)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise BackendError(f"There is no model file {path}.")
        place = str(path.parent)
        options |= {"gguf_file": path.name, "local_files_only": True}
    elif path.is_dir():
        options["local_files_only"] = True
    elif isinstance(source, Path) or source.startswith((os.sep, ".", "~")):
        raise BackendError(f"Cannot load the model {place!r}: there is no such folder.")
    with _in_words(source):
        import transformers

        with _without_bars(transformers.utils.logging):
            return getattr(transformers, kind).from_pretrained(place, **options)


@contextmanager
def _without_bars(logging: Any) -> Iterator[None]:
    """The library's bars on reading weights would stand among what a command prints."""
    from transformers import modeling_gguf_pytorch_utils as gguf

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    # This bar does not ask whether bars are wanted.
    bar, gguf.tqdm = getattr(gguf, "tqdm", None), lambda items, **options: items
    try:
        yield
    finally:
        gguf.tqdm = bar
        if shown:
            logging.enable_progress_bar()


@contextmanager
def _in_words(source: str | Path) -> Iterator[None]:
    try:
        yield
    except UnpicklingError as error:
        raise BackendError(
            f"The weights of {str(source)!r} hold more than numbers, perhaps code, and are not "
            "loaded. Use a copy as safetensors."
        ) from error
    except (OSError, ValueError, RuntimeError, ImportError, KeyError) as error:
        raise BackendError(
            f"transformers cannot load {str(source)!r}: {error}. Give a folder that holds it, or "
            "a name that can be reached from here."
        ) from error
