"""Models of the transformers library: a GGUF file is read fast, and comes to the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
gguf = pytest.importorskip("gguf")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from hammingmark.pretrained import load, read  # noqa: E402

WIDTH, INNER, LAYERS, WORDS = 32, 64, 2, 300


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama, some of whose weights are quantized."""
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    tokens = ["<|endoftext|>", *sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())]
    tokens += [f"{one}{two}" for one in "abcdefg" for two in "hijklmn"][: WORDS - len(tokens)]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(8)
    writer.add_vocab_size(WORDS)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3] + [1] * (WORDS - 1))
    writer.add_token_merges([f"{token[0]} {token[1]}" for token in tokens if len(token) == 2])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    rng = np.random.default_rng(1)

    def add(name: str, *shape: int) -> None:
        values = rng.standard_normal(shape).astype(np.float32)
        if len(shape) == 1:
            writer.add_tensor(name, values)
        else:
            kind = gguf.GGMLQuantizationType.Q4_1
            writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)

    add("token_embd.weight", WORDS, WIDTH)
    add("output_norm.weight", WIDTH)
    for layer in range(LAYERS):
        for name, shape in {
            "attn_norm": (WIDTH,),
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (WIDTH // 2, WIDTH),
            "attn_v": (WIDTH // 2, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_norm": (WIDTH,),
            "ffn_gate": (INNER, WIDTH),
            "ffn_up": (INNER, WIDTH),
            "ffn_down": (WIDTH, INNER),
        }.items():
            add(f"blk.{layer}.{name}.weight", *shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_gguf_file_is_read_as_the_library_reads_it(file: Path) -> None:
    loaded = load("AutoModelForCausalLM", file, device="cpu", dtype="float32")
    options = {"gguf_file": file.name, "local_files_only": True}
    expected = transformers.AutoModelForCausalLM.from_pretrained(
        str(file.parent), dtype=torch.float32, **options
    )
    assert loaded.model.config.to_dict() == expected.config.to_dict()
    weights, expected_weights = loaded.model.state_dict(), expected.state_dict()
    assert weights.keys() == expected_weights.keys()
    for name, weight in weights.items():
        assert torch.equal(weight, expected_weights[name]), name
    assert len(set(weights["model.embed_tokens.weight"].flatten().tolist())) > WORDS  # was read
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(file.parent), **options)
    assert loaded.tokenizer.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()


def test_a_gguf_file_is_parsed_once_for_a_model(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, names = gguf.gguf_reader.GGUFReader, gguf.tensor_mapping.get_tensor_name_map
    parsed: list[str] = []
    initialize = reader.__init__

    def count(self: Any, path: Any, *arguments: Any) -> None:
        parsed.append(str(path))
        initialize(self, path, *arguments)

    monkeypatch.setattr(reader, "__init__", count)
    read("AutoModelForCausalLM", file)
    assert parsed == [str(file)]
    assert (gguf.GGUFReader, gguf.get_tensor_name_map) == (reader, names)  # others' is as it was
