"""Models of the right architecture, a few thousand random weights each, saved as real ones are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    MarianConfig,
    MarianMTModel,
    PegasusConfig,
    PegasusForConditionalGeneration,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

_SENTENCES = (
    "the old bridge was closed in spring engineers had found cracks it and nobody knew why "
    "boats came back empty from sea but fishermen were not worried about that much rain fell on "
    "small town while people waited for news of their friends lexical order paraphrase sent "
    "river stone light garden window letter morning winter summer music teacher doctor little "
    "great early later never "
)
WORDS = _SENTENCES.split()
MARKS = [".", ",", "=", "<", ">", "/", ":", "?", "100", "40", "60"]
SPECIAL = {"pad": "[PAD]", "eos": "[EOS]", "unk": "[UNK]", "mask": "[MASK]"}


def _tokenizer() -> Tokenizer:
    known = [*SPECIAL.values(), *WORDS, *MARKS]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(known)}, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
    )
    made.post_processor = processors.TemplateProcessing(
        single="$A [EOS]", special_tokens=[("[EOS]", 1)]
    )
    return made


def _save(model: object, folder: Path, *, tokenizer: Tokenizer | None = None) -> Path:
    model.save_pretrained(folder)  # type: ignore[attr-defined]
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer or _tokenizer(),
        pad_token="[PAD]",
        eos_token="[EOS]",
        unk_token="[UNK]",
        mask_token="[MASK]",
        model_max_length=64,
    ).save_pretrained(folder)
    return folder


def _size() -> int:
    return _tokenizer().get_vocab_size()


def _seq2seq() -> dict[str, Any]:
    return {
        "vocab_size": _size(),
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
        "max_position_embeddings": 64,
        "init_std": 1.0,
    }


def marian(folder: Path, *, seed: int) -> Path:
    torch.manual_seed(seed)
    model = MarianMTModel(MarianConfig(**_seq2seq(), forced_eos_token_id=1))
    model.generation_config.max_length = 12
    model.generation_config.num_beams = 4
    return _save(model, folder)


def pegasus(folder: Path) -> Path:
    torch.manual_seed(1)
    model = PegasusForConditionalGeneration(PegasusConfig(**_seq2seq()))
    model.final_logits_bias[0, 1] = 9.0  # random weights seldom come to an end
    return _save(model, folder)


def t5(folder: Path) -> Path:
    torch.manual_seed(1)
    config = T5Config(
        vocab_size=_size(),
        d_model=16,
        d_kv=8,
        d_ff=16,
        num_layers=1,
        num_heads=2,
        initializer_factor=4.0,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    )
    return _save(T5ForConditionalGeneration(config), folder)


def bert(folder: Path) -> Path:
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=_size(),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        initializer_range=1.0,
        pad_token_id=0,
    )
    return _save(BertForMaskedLM(config), folder)


def gpt2(folder: Path) -> Path:
    """Byte-level, as its kind is: tokens that begin a word carry the mark Ġ."""
    torch.manual_seed(1)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    known = [*SPECIAL.values(), *alphabet]
    merges: list[tuple[str, str]] = []
    for word in WORDS:
        piece = "Ġ"
        for letter in word:
            if (piece, letter) not in merges:
                merges.append((piece, letter))
                known.append(piece + letter)
            piece += letter
    made = Tokenizer(models.BPE({token: i for i, token in enumerate(known)}, merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    config = GPT2Config(
        vocab_size=len(known),
        n_positions=256,
        n_embd=16,
        n_layer=1,
        n_head=2,
        initializer_range=0.5,
        bos_token_id=1,
        eos_token_id=1,
    )
    return _save(GPT2LMHeadModel(config), folder, tokenizer=made)
