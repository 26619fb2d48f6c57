"""Language models of transformers, on CPU or CUDA, batched over texts and candidates.

A model is checked when it is loaded: it must give the same logits in a batch as alone
(`require_equal_logits`).
"""

from __future__ import annotations

import os
import threading
from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from hammingmark.backends.base import Closing, assistant_turn
from hammingmark.backends.local import (
    context_full,
    fitting_context,
    prompt_too_long,
    threads_to_use,
)
from hammingmark.backends.tokenizer import TransformersTokenizer, added_text
from hammingmark.errors import BackendError, Failure
from hammingmark.pretrained import LIBRARIES, Loaded, load
from hammingmark.prompts import message_fields
from hammingmark.protocols import BackendCapabilities
from hammingmark.records import Candidate, Message, Prompt, Request, Sampling
from hammingmark.registry import require_libraries

_MOST_CANDIDATES = 256  # drawn together on CUDA
_CACHED_TEXTS = 256  # whose tokens are cached: several of each text that is being written


class TransformersBackend(Closing):
    """A transformers model in this process.

    Args:
        model: a folder, a hub name, or a GGUF file.
        name: the name by which a user chose it.
        parallel: how many candidates are drawn together; on CUDA 256, or as many as fit a third
            of the memory that the model leaves free, and 4 on CPU.
        width: how many of them may belong to one text; 16 on CUDA, where so few cost nothing, and
            1 on CPU.
        context: tokens of a prompt and its continuation together; by default 4,096 on CPU and
            2,048 on CUDA, where memory is better spent on more candidates, or the context for
            which the model was trained if that is less.
        device: such as ``cuda`` or ``cpu``; by default CUDA if it is available.
        dtype: such as ``bfloat16``; by default that on CUDA and ``float32`` on CPU.
        threads: on CPU; by default one fewer than the number of cores. torch has one setting for
            the whole process, which is changed when the model is loaded.
    """

    libraries: ClassVar[tuple[str, ...]] = LIBRARIES
    extra: ClassVar[str] = "torch"

    def __init__(
        self,
        model: str | Path,
        *,
        name: str | None = None,
        parallel: int | None = None,
        width: int | None = None,
        context: int | None = None,
        device: str | None = None,
        dtype: str | None = None,
        threads: int | None = None,
    ) -> None:
        require_libraries(self.libraries, part="This backend", extra="torch")
        import torch

        self.name = name or str(model)
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        on_cuda = self.device.startswith("cuda")
        self.parallel = parallel or (_MOST_CANDIDATES if on_cuda else 4)
        self.width = width or (16 if on_cuda else 1)
        self._may_shrink = on_cuda and parallel is None
        self._model_name = model
        self._tokenizer = TransformersTokenizer(model, name=self.name)
        self._context = context
        self._default_context = 2048 if on_cuda else 4096
        self._dtype = dtype or ("bfloat16" if on_cuda else "float32")
        self._threads = None if on_cuda else threads or threads_to_use()
        self._loaded: Loaded | None = None
        self._engine: _Engine | None = None
        self._lock = threading.Lock()
        self._owner = os.getpid()

    @property
    def capabilities(self) -> BackendCapabilities:
        """It can draw sentences in stages, and apply watermarks of tokens."""
        return BackendCapabilities(continues=self.continues, load_tokenizer=self.load_tokenizer)

    def continues(self, prompt: Prompt, sampling: Sampling) -> bool:
        """Always true: it also continues within a sentence, in chats too."""
        return True

    def open(self) -> TransformersSession:
        """Start a session; the first call loads the model.

        Raises:
            BackendError: the model cannot be loaded, cannot be run, or was loaded before a fork.
        """
        if self._owner != os.getpid():
            if self._loaded is not None:
                # The threads of torch, and CUDA, do not survive a fork.
                raise BackendError(
                    f"{self.name} was loaded before this process was forked. Load it after the "
                    "fork, or use the start method spawn."
                )
            self._owner, self._lock = os.getpid(), threading.Lock()
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            if self._engine is None:
                self._engine = self._make_engine()
            return TransformersSession(self._engine)

    def load_tokenizer(self) -> TransformersTokenizer:
        """The tokenizer of this model."""
        return self._tokenizer

    def close(self) -> None:
        """Release the model and its memory; may be called twice."""
        self._engine = None
        self._loaded = None
        if self.device.startswith("cuda"):
            import torch

            torch.cuda.empty_cache()

    def _load(self) -> Loaded:
        import torch

        from hammingmark.backends.batching.check import require_equal_logits

        if self._threads is not None:
            torch.set_num_threads(self._threads)
        loaded = load(
            "AutoModelForCausalLM",
            self._model_name,
            loaded_tokenizer=self._tokenizer.loaded,
            device=self.device,
            dtype=self._dtype,
        )
        require_equal_logits(loaded.model, name=self.name)
        return loaded

    def _make_engine(self) -> _Engine:
        from hammingmark.backends.batching.engine import BatchEngine

        assert self._loaded is not None
        model, tokenizer = self._loaded.model, self._loaded.tokenizer
        trained = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        length = fitting_context(
            self._context, default=self._default_context, trained=trained, name=self.name
        )
        if self._may_shrink:
            self.parallel = min(_MOST_CANDIDATES, max(4, _room(model, length)))
        slots = BatchEngine(model, slots=self.parallel, length=length)
        ends = _end_tokens(model, tokenizer)
        return _Engine(slots, tokenizer, length=length, trained=trained, ends=ends)


class TransformersSession:
    """Candidates of one run, drawn within `wait`; all sessions of a backend share its slots."""

    def __init__(self, engine: _Engine) -> None:
        self._engine = engine
        self._done: deque[Candidate] = deque()
        self._lanes: dict[int, _Lane] = {}
        self._woken = False

    def submit(self, request: Request) -> None:
        """Request one candidate; if its prompt does not fit, it is returned with that failure."""
        try:
            tokens = self._engine.encode(request)
        except BackendError as error:
            self._done.append(Candidate(request.number, (), finished=False, failure=error.failure))
            return
        lane = _Lane(request, tokens, self._done)
        self._lanes[request.number] = lane
        with self._engine.lock:
            self._engine.waiting.append(lane)

    def cancel(self, number: int) -> None:
        """Cancel one candidate."""
        with self._engine.lock:
            lane = self._lanes.pop(number, None)
            if lane is not None:
                self._engine.drop(lane)

    def wake(self) -> None:
        """Make `wait` return after the current step."""
        self._woken = True

    def wait(self) -> list[Candidate]:
        """Every candidate that has finished, at least one unless `wake` is called.

        If many are in progress, it waits for one in sixteen, so that sentences are embedded in
        groups.
        """
        group = max(1, len(self._lanes) // 16)
        while len(self._done) < group and not self._woken:
            with self._engine.lock:
                if len(self._done) < group:
                    self._engine.step()
        self._woken = False
        candidates = list(self._done)
        self._done.clear()
        for candidate in candidates:
            self._lanes.pop(candidate.number, None)
        return candidates

    def close(self) -> None:
        """Cancel all candidates."""
        for number in list(self._lanes):
            self.cancel(number)


@dataclass(eq=False, slots=True)
class _Lane:
    """One candidate being drawn."""

    request: Request
    tokens: list[int]
    done: deque[Candidate]
    slot: int | None = None
    drawn: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    text: str = ""
    decoded: int = 0  # how many of the drawn tokens are in the text

    @property
    def continuation(self) -> Any:
        """The sequence that the batch engine continues."""
        from hammingmark.backends.batching.engine import Continuation

        request = self.request
        return Continuation(
            self.tokens, request.seed, request.sampling, request.logits, request.condition
        )

    def finish(self, *, finished: bool, truncated: bool, failure: Failure | None = None) -> None:
        """Hand the candidate over."""
        number, pieces, read = self.request.number, tuple(self.pieces), len(self.tokens)
        self.done.append(
            Candidate(
                number,
                pieces,
                finished=finished,
                truncated=truncated,
                failure=failure,
                read_tokens=read,
            )
        )


class _Engine:
    """The batch engine with text on both sides: prompts to tokens, drawn tokens to text."""

    def __init__(
        self,
        slots: Any,
        tokenizer: Any,
        *,
        length: int,
        trained: int | None,
        ends: frozenset[int],
    ) -> None:
        self.lock = threading.Lock()
        self.waiting: deque[_Lane] = deque()
        self._slots = slots
        self._tokenizer = tokenizer
        self._length = length
        self._trained = trained
        self._ends = ends
        self._lanes: dict[int, _Lane] = {}
        # Candidates for one sentence have the same prompt and text.
        self._tokens = lru_cache(maxsize=_CACHED_TEXTS)(self._tokenize)
        self._rendered = lru_cache(maxsize=_CACHED_TEXTS)(self._render)

    def encode(self, request: Request) -> list[int]:
        """The tokens of a prompt and of the text written after it."""
        if request.prompt.messages:
            # The template adds the special tokens at the beginning of a chat.
            messages, start = assistant_turn(request.prompt, request.written)
            tokens = self._tokens(self._rendered(messages) + start, False)
        else:
            tokens = self._tokens(request.prompt.text + request.written, True)
        if len(tokens) >= self._length:
            raise prompt_too_long(len(tokens), context=self._length, trained=self._trained).error()
        return tokens

    def _tokenize(self, text: str, special: bool) -> list[int]:
        tokens: list[int] = self._tokenizer(text, add_special_tokens=special).input_ids
        return tokens or [self._tokenizer.bos_token_id or next(iter(self._ends))]

    def step(self) -> None:
        """Start waiting candidates, and draw one token for every lane."""
        lanes = [self.waiting.popleft() for _ in range(min(len(self.waiting), self._slots.free))]
        slots = self._slots.begin([lane.continuation for lane in lanes])
        for lane, slot in zip(lanes, slots, strict=True):
            lane.slot = slot
            self._lanes[slot] = lane
        for slot, token in self._slots.step().items():
            self._append(self._lanes[slot], token)

    def drop(self, lane: _Lane) -> None:
        """Discard a lane whose candidate was cancelled."""
        if lane.slot is None:
            if lane in self.waiting:
                self.waiting.remove(lane)
        elif self._lanes.get(lane.slot) is lane:
            self._leave(lane)

    def _append(self, lane: _Lane, token: int) -> None:
        assert lane.slot is not None
        if token in self._ends:
            lane.finish(finished=True, truncated=False)
            self._leave(lane)
            return
        lane.drawn.append(token)
        piece = added_text(self._tokenizer, lane.drawn, decoded=lane.decoded, context=lane.tokens)
        is_whole = piece is not None  # not in the middle of a character
        lane.decoded = len(lane.drawn) if is_whole else lane.decoded
        if piece:
            # The tokens before it that form only part of a character have no text.
            lane.pieces += [""] * (len(lane.drawn) - len(lane.pieces) - 1)
            lane.pieces.append(piece)
            lane.text += piece
        if is_whole and lane.request.stop_condition(lane.text):
            lane.finish(finished=False, truncated=False)
            self._leave(lane)
        elif len(lane.drawn) >= lane.request.max_tokens:
            lane.finish(finished=False, truncated=True)
            self._leave(lane)
        elif self._slots.room(lane.slot) < 1:
            failure = context_full(context=self._length, trained=self._trained)
            lane.finish(finished=False, truncated=True, failure=failure)
            self._leave(lane)

    def _leave(self, lane: _Lane) -> None:
        assert lane.slot is not None
        self._slots.end(lane.slot)
        del self._lanes[lane.slot]

    def _render(self, messages: tuple[Message, ...]) -> str:
        """A chat in the form that the model reads, up to the start of the assistant's turn."""
        chat = [message_fields(message) for message in messages]
        try:
            text: str = self._tokenizer.apply_chat_template(
                chat, tokenize=False, add_generation_prompt=True
            )
        except Exception as error:
            # A template is a program and may raise anything.
            raise BackendError(
                "The model's chat template refused the messages.",
                kind="prompt_refused",
                detail=str(error),
            ) from None
        return text


def _room(model: Any, length: int) -> int:
    """How many slots of ``length`` tokens fit a third of the free memory of the model's device."""
    import torch

    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    token_bytes = 2 * config.num_hidden_layers * heads * width * model.dtype.itemsize
    free, _ = torch.cuda.mem_get_info(model.device)
    return int(free // 3 // (token_bytes * (length + 1)))


def _end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every token that ends a text."""
    tokens: set[int] = set()
    for source in (tokenizer.eos_token_id, model.generation_config.eos_token_id):
        if isinstance(source, int):
            tokens.add(source)
        elif source:
            tokens.update(source)
    for text in ("<|im_end|>", "<|endoftext|>"):
        token = tokenizer.convert_tokens_to_ids(text)
        if isinstance(token, int) and token != tokenizer.unk_token_id:
            tokens.add(token)
    return frozenset(tokens)
