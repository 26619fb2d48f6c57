"""The transformers backend on a tiny model made here, loaded as a real one is."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hammingmark.backends.transformers import TransformersBackend
from hammingmark.errors import BackendError, InputError
from hammingmark.protocols import Backend
from hammingmark.records import Message, Prompt, Request
from hammingmark.testing import backend_checks, draw
from hammingmark.testing.backend_checks import ask

pytest.importorskip("torch")
pytest.importorskip("transformers")

TEXT = (
    "the a river stone rose fell and but slowly over old town bridge rain came. went. "
    "light. nobody knew why. user says assistant café"
)
TEMPLATE = (
    "{% for m in messages %}{{ m.role }} says {{ m.content }} {% endfor %}"
    "{% if add_generation_prompt %}assistant says{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    path = tmp_path_factory.mktemp("tiny")
    pieces = ["<end>", "<unk>", *(f"▁{word}" for word in TEXT.split())]
    tokenizer = Tokenizer(models.WordLevel({p: i for i, p in enumerate(pieces)}, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<end>",
        unk_token="<unk>",
        chat_template=TEMPLATE,
    ).save_pretrained(path)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(pieces),
                hidden_size=32,
                intermediate_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=128,
                eos_token_id=0,
                initializer_range=0.5,
            )
        )
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def backend(folder: Path) -> TransformersBackend:
    """In double precision, because products are rounded differently in a batch than alone.

    In single precision this moves a probability by 1e-7, so that every millionth word differs.
    """
    return TransformersBackend(folder, parallel=3, width=2, device="cpu", dtype="float64")


PROMPT = Prompt("the old bridge fell. nobody knew")


def request(
    number: int, prompt: Prompt = PROMPT, *, max_tokens: int = 12, **options: Any
) -> Request:
    return ask(number, prompt, seed=number, max_tokens=max_tokens, **options)


@pytest.mark.parametrize("check", backend_checks())
def test_it_keeps_to_what_every_backend_does(
    backend: TransformersBackend, check: Callable[[Backend], None]
) -> None:
    check(backend)


def collect(backend: TransformersBackend, *requests: Request) -> dict[int, str]:
    return {number: each.text for number, each in draw(backend, *requests).items()}


def test_more_candidates_than_slots_all_come_back(backend: TransformersBackend) -> None:
    requests = [request(number) for number in range(8)]
    together = collect(backend, *requests)
    assert len(set(together.values())) > 4
    assert together == {each.number: collect(backend, each)[each.number] for each in requests}


def test_single_precision_will_do(folder: Path) -> None:
    single = TransformersBackend(folder, device="cpu")
    candidates = collect(single, *(request(number) for number in range(6)))
    assert sorted(candidates) == list(range(6))
    assert len(set(candidates.values())) > 3


def test_a_cancelled_candidate_frees_its_slot(backend: TransformersBackend) -> None:
    session = backend.open()
    for number in range(5):
        session.submit(request(number, max_tokens=60))
    for number in range(4):
        session.cancel(number)
    candidates = session.wait()
    assert [candidate.number for candidate in candidates] == [4]
    session.close()


def test_sessions_share_the_slots(backend: TransformersBackend) -> None:
    requests = [request(number, max_tokens=30) for number in range(6)]
    expected = collect(backend, *requests)
    candidates: list[dict[int, str]] = [{}, {}]

    def work(place: int) -> None:
        candidates[place] = collect(backend, *requests[place::2])

    threads = [threading.Thread(target=work, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {**candidates[0], **candidates[1]} == expected


def test_a_chat_goes_through_the_models_template(backend: TransformersBackend) -> None:
    chat = Prompt(messages=(Message("user", "why the rain"),))
    same = Prompt("user says why the rain assistant says")
    assert collect(backend, request(3, chat)) == collect(backend, request(3, same))


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BackendError):
        TransformersBackend(tmp_path, device="cpu").open()
    with pytest.raises(BackendError):
        TransformersBackend(tmp_path / "absent.gguf", device="cpu").open()


def test_a_begun_answer_is_continued_within_its_message(backend: TransformersBackend) -> None:
    chat = Prompt(messages=(Message("user", "why the rain"), Message("assistant", " rose")))
    same = Prompt("user says why the rain assistant says rose slowly")
    candidates = collect(backend, request(3, chat, written=" slowly"))
    assert candidates == collect(backend, request(3, same))


def test_contexts(folder: Path, backend: TransformersBackend) -> None:
    failure = draw(backend, request(1, Prompt("the " * 500)))[1].failure
    assert failure is not None
    assert failure.kind == "context_overflow"
    assert "128" in failure.summary
    with pytest.raises(InputError):
        TransformersBackend(folder, device="cpu", context=129).open()
    small = TransformersBackend(folder, device="cpu", context=20)
    long = (request(number, Prompt("the " * 15), max_tokens=50) for number in range(6))
    full = [each for each in draw(small, *long).values() if each.failure]  # some texts end earlier
    assert full
    assert all(each.truncated for each in full)
    assert {each.failure.kind for each in full if each.failure} == {"context_overflow"}


def test_a_model_loaded_before_a_fork_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = TransformersBackend(folder, device="cpu")
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    collect(backend, request(3))  # created before the fork, loaded after it
    monkeypatch.setattr(os, "getpid", lambda: here + 2)
    with pytest.raises(BackendError):
        backend.open()
