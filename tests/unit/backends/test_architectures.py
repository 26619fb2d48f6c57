"""BatchEngine against the library's own logits, on a tiny model of each architecture, made here."""

from __future__ import annotations

from typing import Any

import pytest
from tests.errors import raises_naming

from hammingmark.errors import BackendError
from hammingmark.records import Sampling

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from hammingmark.backends.batching.check import logits_difference, require_equal_logits  # noqa: E402
from hammingmark.backends.batching.engine import BatchEngine, Continuation  # noqa: E402

SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
MIXED = {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "qwen2": ("Qwen2", {}),
    "qwen2-sliding": (
        "Qwen2",
        {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3", {"head_dim": 8}),
    "mistral": ("Mistral", {"sliding_window": 6, "head_dim": 8}),
    "mistral-full": ("Mistral", {"sliding_window": None, "head_dim": 8}),
    "mixtral": ("Mixtral", {**EXPERTS, "sliding_window": 6}),
    "gemma": ("Gemma", {"head_dim": 8}),
    "gemma2": ("Gemma2", {**MIXED, "head_dim": 8}),
    "gemma3": ("Gemma3", {**MIXED, "head_dim": 8}),
    "phi": ("Phi", {}),
    "phi3": ("Phi3", {"sliding_window": 6}),
    "gpt2": ("GPT2", {}),
    "gpt-neox": ("GPTNeoX", {}),
    "gptj": ("GPTJ", {"rotary_dim": 4}),
    "opt": ("OPT", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    "falcon": ("Falcon", {"alibi": False, "new_decoder_architecture": True}),
    "granite": ("Granite", {}),
    "olmo2": ("Olmo2", {}),
    "stablelm": ("StableLm", {}),
    "cohere": ("Cohere", {}),
    "cohere2": ("Cohere2", MIXED),
    "smollm3": ("SmolLM3", {}),
    "starcoder2": ("Starcoder2", {"sliding_window": 6}),
}
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "bloom": ("Bloom", {}),
    "falcon-alibi": ("Falcon", {"alibi": True, "new_decoder_architecture": False}),
    "mamba": ("Mamba", {"state_size": 4}),
    "rwkv": ("Rwkv", {"attention_hidden_size": 32, "context_length": 64}),
}


def build(kind: str, changes: dict[str, Any], **options: Any) -> Any:
    text_only = getattr(transformers, f"{kind}TextConfig", None)
    config = text_only or getattr(transformers, f"{kind}Config")
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = transformers.AutoModelForCausalLM.from_config(config(**SIZES, **changes), **options)
        for parameter in model.parameters():
            # Random models attend to all tokens nearly equally, so that masks would matter little.
            parameter.data.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


@pytest.mark.parametrize("case", RUNS)
def test_slots_give_the_models_own_logits(case: str) -> None:
    model = build(*RUNS[case])
    assert logits_difference(model) < 1e-4
    require_equal_logits(model, name=case)


GREEDY = Sampling(temperature=0.0)
on_cuda = pytest.param(
    "cuda",
    marks=[
        pytest.mark.cuda,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
    ],
)


@pytest.mark.parametrize("device", ["cpu", on_cuda])
@pytest.mark.parametrize("case", ["llama", "mistral", "mixtral", "gemma3", "gpt2", "opt"])
def test_greedy_slots_write_what_the_library_writes(case: str, device: str) -> None:
    """Far beyond the sliding window, up to the last position that the model has."""
    model = build(*RUNS[case]).to(device)
    prompts = [list(range(3, 40)), list(range(50, 55))]
    length = SIZES["max_position_embeddings"]
    slots = BatchEngine(model, slots=2, length=length)
    numbers = slots.begin([Continuation(tokens, 0, GREEDY) for tokens in prompts])
    drawn: dict[int, list[int]] = {number: [] for number in numbers}
    for _ in range(30):
        for number, token in slots.step().items():
            drawn[number].append(token)
    for tokens, number in zip(prompts, numbers, strict=True):
        expected = model.generate(
            torch.tensor([tokens], device=device),
            max_new_tokens=20,
            min_new_tokens=20,
            do_sample=False,
        )
        # The library suppresses the end token until it has written as many tokens.
        same = expected[0, len(tokens) :].tolist()
        until = drawn[number].index(2) if 2 in drawn[number] else 20
        assert drawn[number][: min(until, 20)] == same[: min(until, 20)]


def test_eager_attention_is_given_masks_that_can_be_added() -> None:
    assert logits_difference(build(*RUNS["gemma2"], attn_implementation="eager")) < 1e-4


@pytest.mark.parametrize("case", REFUSED)
def test_what_slots_cannot_run_is_refused_by_name(case: str) -> None:
    with pytest.raises(BackendError) as caught:
        require_equal_logits(build(*REFUSED[case]), name=case)
    assert caught.value.failure.summary.startswith(f"{case} is a ")
    assert "openai:" in caught.value.failure.advice  # by which it could be run


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks without sliding windows."""
    from hammingmark.backends.batching import cache as masks

    def all_earlier(kind: str, reach: Any, places: Any, config: Any) -> Any:
        return reach <= places

    monkeypatch.setattr(masks, "_allowed", all_earlier)


@pytest.mark.usefixtures("blind")
def test_a_window_that_is_ignored_would_have_shown() -> None:
    with raises_naming(BackendError, "MistralForCausalLM", "logits"):
        require_equal_logits(build("Mistral", {"sliding_window": 4096, "head_dim": 8}), name="m")
