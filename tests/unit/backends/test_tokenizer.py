"""Tokenizers of transformers models, and the text that each token adds."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.errors import raises_naming

import hammingmark
from hammingmark.errors import BackendError, InputError, KeyMismatch

pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from transformers import LlamaConfig, PreTrainedTokenizerFast  # noqa: E402

from hammingmark.backends.tokenizer import (  # noqa: E402
    SavedTokenizer,
    TransformersTokenizer,
    added_text,
)


@pytest.fixture
def tokenizer() -> Any:
    """A tokenizer that drops the space before the first word, like Llama 2's."""
    vocabulary = {"<unk>": 0, "▁The": 1, "▁harbour": 2, "▁slept": 3, ".": 4}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    words.decoder = tokenizers.decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=words)


def test_a_word_keeps_its_space_behind_another(tokenizer: Any) -> None:
    assert added_text(tokenizer, [3], decoded=0) == "slept", "otherwise this test is idle"
    assert added_text(tokenizer, [3], decoded=0, context=[1, 2]) == " slept"
    assert added_text(tokenizer, [3, 4], decoded=1, context=[1, 2]) == "."
    assert added_text(tokenizer, [2, 3, 2, 3, 2, 3], decoded=5, context=[1]) == " slept"


def test_the_pieces_of_stages_are_those_of_one_draw(tokenizer: Any) -> None:
    tokens = [1, 2, 3, 4, 1, 2, 3, 4]
    whole = tokenizer.decode(tokens)
    text = ""
    for place in range(len(tokens)):
        text += (
            added_text(tokenizer, tokens[place : place + 1], decoded=0, context=tokens[:place])
            or ""
        )
    assert text == whole


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with a tokenizer of bytes, and the configuration of its model."""
    pieces = ["The", "Ġsea", "Ġslept", "Ã", "©", "âĢ", "Ŀ", "Ċ", "Ġ", "3"]
    alphabet = sorted({*tokenizers.pre_tokenizers.ByteLevel.alphabet(), *pieces})
    whole = tokenizers.Tokenizer(
        tokenizers.models.BPE({each: i for i, each in enumerate(alphabet)}, merges=[])
    )
    whole.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    whole.decoder = tokenizers.decoders.ByteLevel()
    folder = tmp_path / "model"
    fast = PreTrainedTokenizerFast(tokenizer_object=whole, eos_token="<end>", bos_token="<begin>")
    fast.save_pretrained(folder)
    LlamaConfig(vocab_size=300).save_pretrained(folder)
    return folder


def test_a_saved_tokenizer_is_the_same_without_the_library(model: Path, tmp_path: Path) -> None:
    first = TransformersTokenizer(model, name="transformers:here")
    first.save(tmp_path / "kept" / "deeper")
    (file,) = (tmp_path / "kept" / "deeper").iterdir()
    saved = SavedTokenizer(file, name="transformers:here")
    assert saved.name == first.name
    assert saved.fingerprint == first.fingerprint == file.name
    assert saved.size == first.size == 300
    for text in ("", "The sea slept.\n\nThe café — “3”  <end> x", " 三 nights"):
        tokens = first.encode(text)
        assert saved.encode(text) == tokens
        assert saved.pieces(tokens) == first.pieces(tokens)
        assert "".join(saved.pieces(tokens)) == text
    assert first.encode("The sea")[0] != first.encode("sea")[0]


def test_a_damaged_file_is_refused(model: Path, tmp_path: Path) -> None:
    first = TransformersTokenizer(model)
    first.save(tmp_path / "kept")
    file = tmp_path / "kept" / first.fingerprint
    file.write_bytes(file.read_bytes().replace(b"300", b"301", 1))
    with raises_naming(InputError, file):
        SavedTokenizer(file, name="x")
    first.save(tmp_path / "kept")  # an existing file is not written again


def test_a_key_finds_its_tokenizer_again_when_the_model_is_gone(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAMMINGMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HAMMINGMARK_KEYRING", str(tmp_path / "ring"))
    monkeypatch.chdir(model.parent)
    key = hammingmark.new_key(method="kgw", tokenizer=f"transformers:{model.name}")
    monkeypatch.chdir(tmp_path.parent)  # a key is used from other folders, too
    assert key.config.tokenizer.name == f"transformers:{model}"  # type: ignore[attr-defined]
    model.rename(tmp_path / "elsewhere")
    text = "The sea slept and the sea rose again, three times over."
    verdict = hammingmark.detect(text, key=key)
    assert verdict.evidence.unit == "token"
    assert "".join(verdict.pieces) == text
    (file,) = (tmp_path / "ring" / "tokenizers").iterdir()
    (tmp_path / "cache" / "tokenizers").mkdir(parents=True)
    file = file.rename(tmp_path / "cache" / "tokenizers" / file.name)  # its earlier place
    assert hammingmark.detect(text, key=key).p_value == verdict.p_value
    file.unlink()
    with raises_naming(BackendError, model):
        hammingmark.detect(text, key=key)


def test_a_key_refuses_another_tokenizer_by_name(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAMMINGMARK_KEYRING", str(tmp_path / "ring"))
    key = hammingmark.new_key(method="kgw", tokenizer=f"transformers:{model}")
    LlamaConfig(vocab_size=301).save_pretrained(model)
    other = TransformersTokenizer(model, name="transformers:other")
    with raises_naming(KeyMismatch, key.id, "tokenizer", "transformers:other"):
        hammingmark.detector(key, tokenizer=other)


@pytest.mark.parametrize("text", ["half \ud800 a pair", "\udfff", "a 😀 whole one"])
def test_half_of_a_surrogate_pair_is_replaced(model: Path, tmp_path: Path, text: str) -> None:
    tokenizer = TransformersTokenizer(model)
    tokenizer.save(tmp_path)
    saved = SavedTokenizer(tmp_path / tokenizer.fingerprint, name="x")
    assert saved.encode(text) == tokenizer.encode(text)


def test_what_a_models_file_says_of_lengths_is_not_obeyed(model: Path, tmp_path: Path) -> None:
    """Some models are saved with the truncation and the padding of their training."""
    plain = TransformersTokenizer(model)
    copy = tmp_path.parent / f"{tmp_path.name}-copy"
    shutil.copytree(model, copy)
    file = copy / "tokenizer.json"
    changed = tokenizers.Tokenizer.from_file(str(file))
    changed.enable_truncation(4)
    changed.enable_padding(length=4)
    changed.save(str(file))
    cutting = TransformersTokenizer(copy)
    cutting.save(tmp_path)
    saved = SavedTokenizer(tmp_path / cutting.fingerprint, name="x")
    for text in ("one", "one two three four five six seven eight nine ten"):
        assert cutting.encode(text) == saved.encode(text) == plain.encode(text)


def test_replacement_characters_are_characters(model: Path, tmp_path: Path) -> None:
    """They are not waited for, so that they take no longer than other characters."""
    first = TransformersTokenizer(model)
    first.save(tmp_path / "kept")
    tokenizer = SavedTokenizer(tmp_path / "kept" / first.fingerprint, name="x")
    decoded = 0
    decode = tokenizer._tokenizer.decode

    def counting(tokens: list[int], **options: bool) -> str:
        nonlocal decoded
        decoded += len(tokens)
        return decode(tokens, **options)

    object.__setattr__(tokenizer._tokenizer, "decode", counting)
    for text in ("\ufffd", "a\ufffd", "\ufffd" * 300, "\ufffd 🌊 \ufffd 漢字", "漢字🌊" * 100):
        tokens = tokenizer.encode(text)
        assert "".join(tokenizer.pieces(tokens)) == text
        assert decoded <= 40 * len(tokens)
        decoded = 0
