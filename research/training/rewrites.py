"""Rewrite sentences by one rewriter at a time, with one file of rewrites for each.

    python -m research.training.rewrites reworded --models FILE.gguf --split train --most 8000

Existing rewrites are not made again. A file has one JSON object per line, a sentence and its
rewrite, in the order of the passages.

The requests to a chat model differ from those of the attack `hammingmark.attacks.rewrite`, and the
languages from that of Bergamot, so that both can still be used for evaluation.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from hammingmark.assembly.backends import load_backend
from hammingmark.assembly.environment import model_store
from hammingmark.assembly.parts import load_splitter
from hammingmark.attacks.decoding import Decoding
from hammingmark.attacks.response_cleanup import clean
from hammingmark.attacks.rewrite import Rewrite
from hammingmark.attacks.segments import one_line
from hammingmark.attacks.seq2seq import Seq2Seq
from hammingmark.attacks.synonyms import Synonyms
from hammingmark.attacks.translate import BergamotRoundTrip
from hammingmark.backends.transformers import TransformersBackend
from hammingmark.pretrained import load
from research.training.files import DATA, read_passages, read_rewrites, write_rewrites
from research.training.noise import rewrite as add_noise

Rewriter = Callable[[list[str], np.random.Generator], list[str]]

SYSTEM = "You answer with one sentence and nothing else."
REQUESTS = (
    "Say the following in your own words.\n\n{text}",
    "Paraphrase this and keep every fact.\n\n{text}",
    "Write this more simply without losing information.\n\n{text}",
    "Put this into a formal style.\n\n{text}",
    "Say this the way people talk, with the same content.\n\n{text}",
    "Reorder the parts of this sentence and replace words by synonyms.\n\n{text}",
    "An editor finds this clumsy. Give a better version that says the same.\n\n{text}",
    "Turn active into passive voice or the other way round, and keep the meaning.\n\n{text}",
)
LANGUAGES = ("French", "Spanish", "German", "Italian")
FORTH = "Translate this sentence into {language}.\n\n{text}"
BACK = "Translate this {language} sentence into English.\n\n{text}"
TEMPERATURES = (0.4, 0.7, 1.0)
TOP_K = 50


class ChatModel:
    """A chat model of the transformers library.

    Args:
        source: a folder or a GGUF file.
        device: the device of the model.
        batch: sentences per batch.
    """

    def __init__(self, source: Path, *, device: str | None = None, batch: int | None = None):
        cuda = device is not None and device.startswith("cuda")
        self._loaded = load(
            "AutoModelForCausalLM",
            source,
            device=device,
            dtype="bfloat16" if cuda else "float32",
        )
        self._batch = batch or (1536 if cuda else 8)
        tokenizer = self._loaded.tokenizer
        tokenizer.padding_side = "left"
        names = ("<|im_end|>", "<|endoftext|>", tokenizer.eos_token)
        ids = (tokenizer.convert_tokens_to_ids(name) for name in names if name)
        self._ends = sorted(
            {end for end in ids if end is not None and end != tokenizer.unk_token_id}
        )
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token

    def answer(
        self, requests: Sequence[str], *, temperatures: Sequence[float], rng: np.random.Generator
    ) -> list[str | None]:
        """An answer to each request; None if it was truncated.

        The temperature is drawn for each batch.
        """
        torch, tokenizer = self._loaded.torch, self._loaded.tokenizer
        texts = [
            tokenizer.apply_chat_template(
                [{"role": "system", "content": SYSTEM}, {"role": "user", "content": request}],
                tokenize=False,
                add_generation_prompt=True,
            )
            for request in requests
        ]
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        answers: list[str | None] = [None] * len(texts)
        for begin in range(0, len(order), self._batch):
            batch = order[begin : begin + self._batch]
            tokens = tokenizer(
                [texts[index] for index in batch],
                add_special_tokens=False,
                padding=True,
                return_tensors="pt",
            ).to(self._loaded.device)
            longest = max(len(requests[index]) for index in batch)
            with self._loaded.seeded(int(rng.integers(2**31))):
                output = self._loaded.model.generate(
                    **tokens,
                    do_sample=True,
                    temperature=float(rng.choice(np.array(temperatures))),
                    top_k=TOP_K,
                    top_p=1.0,
                    max_new_tokens=24 + longest // 4,
                    eos_token_id=self._ends,
                    pad_token_id=tokenizer.pad_token_id,
                )
            new_tokens = output[:, tokens["input_ids"].shape[1] :]
            ended = torch.isin(new_tokens, torch.tensor(self._ends, device=new_tokens.device)).any(
                dim=1
            )
            decoded = tokenizer.batch_decode(new_tokens, skip_special_tokens=True)
            for index, answer, is_complete in zip(batch, decoded, ended.tolist(), strict=True):
                answers[index] = answer if is_complete else None
        return answers


def reword(model: ChatModel, sentences: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Reword each sentence by one of several requests."""
    chosen = rng.integers(len(REQUESTS), size=len(sentences))
    requests = [
        REQUESTS[number].format(text=text) for number, text in zip(chosen, sentences, strict=True)
    ]
    answers = model.answer(requests, temperatures=TEMPERATURES, rng=rng)
    return [usable(answer, text) for answer, text in zip(answers, sentences, strict=True)]


def translate(model: ChatModel, sentences: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Translate each sentence into another language and back."""
    chosen = [LANGUAGES[i] for i in rng.integers(len(LANGUAGES), size=len(sentences))]
    forth = [
        FORTH.format(language=language, text=text)
        for language, text in zip(chosen, sentences, strict=True)
    ]
    answers = model.answer(forth, temperatures=TEMPERATURES[:2], rng=rng)
    foreign = [usable(answer, text) for answer, text in zip(answers, sentences, strict=True)]
    indices = [index for index, text in enumerate(foreign) if text]
    back = [BACK.format(language=chosen[index], text=foreign[index]) for index in indices]
    rewrites = [""] * len(sentences)
    answers_back = model.answer(back, temperatures=TEMPERATURES[:2], rng=rng)
    for index, answer in zip(indices, answers_back, strict=True):
        text = usable(answer, sentences[index])
        rewrites[index] = "" if text == foreign[index] else text
    return rewrites


def usable(answer: str | None, sentence: str) -> str:
    """The rewrite in an answer; empty if unchanged, missing, or of a very different length."""
    if answer is None:
        return ""
    text = clean(answer, original=sentence, whole=False)
    if not isinstance(text, str):
        return ""
    text = one_line(text)
    fits = 0.4 * len(sentence) <= len(text) <= 2.0 * len(sentence) + 20
    return text if fits and text != one_line(sentence) else ""


def marian(
    *, temperature: float | None, folder: Path | None, device: str | None, top_k: int = 0
) -> Rewriter:
    """English to French and back, decoded greedily or sampled."""
    root = folder or model_store().ensure("opus-mt")
    dtype = "float16" if device == "cuda" else None
    batch = 2048 if device == "cuda" else 16
    models = [
        Seq2Seq(root / direction, device=device, dtype=dtype, batch=batch, longest=128)
        for direction in ("en-fr", "fr-en")
    ]
    decoding = Decoding(temperature=temperature, top_k=top_k, growth=1.5)

    def translate_batch(sentences: list[str], rng: np.random.Generator) -> list[str]:
        for model in models:
            sentences = [best for best, *_ in model.write(sentences, decoding=decoding, rng=rng)]
        return sentences

    return translate_batch


def bergamot() -> Rewriter:
    """English to Portuguese and back."""
    attack = BergamotRoundTrip(splitter=load_splitter())
    return lambda sentences, rng: attack.apply(sentences, rng=rng)


def synonyms() -> Rewriter:
    """WordNet synonyms for up to half of the words."""
    attack = Synonyms(lexicon=model_store().ensure("wordnet"), share=0.5, sure=0.2, senses=2)
    return lambda sentences, rng: attack.apply(sentences, rng=rng)


def noise() -> Rewriter:
    """One to three careless changes."""
    return lambda sentences, rng: [add_noise(sentence, rng) for sentence in sentences]


def instructed(backend: str) -> Rewriter:
    """Rewriting by a language model with the request of the attack."""
    kind, _, model = backend.partition(":")
    if kind == "transformers":
        attack = Rewrite(TransformersBackend(model, context=512), splitter=load_splitter())
    else:
        attack = Rewrite(load_backend(backend), splitter=load_splitter())
    return lambda sentences, rng: attack.apply(sentences, rng=rng)


def by_chat_model(kind: str, *, model: Path | None, device: str | None) -> Rewriter:
    """Rewriting by a chat model of the transformers library, with the requests of this file."""
    if model is None:
        raise SystemExit("Give the chat model with --models FILE.")
    chat = ChatModel(model, device=device)
    rewrite = {"reworded": reword, "translated": translate}[kind]
    return lambda sentences, rng: rewrite(chat, sentences, rng)


def build(name: str, *, folder: Path | None, device: str | None) -> Rewriter:
    """A rewriter by its name."""
    if name in ("reworded", "translated"):
        return by_chat_model(name, model=folder, device=device)
    if name == "marian":
        return marian(temperature=None, folder=folder, device=device)
    if name == "marian-mild":
        return marian(temperature=0.7, top_k=10, folder=folder, device=device)
    if name == "marian-sampled":
        return marian(temperature=1.0, folder=folder, device=device)
    if name == "bergamot":
        return bergamot()
    if name == "synonyms":
        return synonyms()
    if name.startswith("noise"):
        return noise()
    return instructed(name)


def rewrite_all(
    rewriter: Rewriter,
    sentences: Sequence[str],
    *,
    rng: np.random.Generator,
    batch: int,
    seconds: float,
) -> Iterator[tuple[str, str]]:
    """Sentences and their rewrites; no batch begins after so many seconds."""
    end = time.monotonic() + seconds
    for begin in range(0, len(sentences), batch):
        if time.monotonic() > end:
            break
        batch_sentences = list(sentences[begin : begin + batch])
        yield from zip(batch_sentences, rewriter(batch_sentences, rng), strict=True)
        done = min(begin + batch, len(sentences))
        print(f"\r{done} of {len(sentences)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "rewriter",
        help="marian, marian-mild, marian-sampled, bergamot, synonyms, noise, reworded, "
        "translated, or a backend",
    )
    parser.add_argument("--passages", type=Path, nargs="+", default=[DATA / "passages.jsonl"])
    parser.add_argument("--split", choices=("train", "heldout"))
    parser.add_argument("--genres", nargs="*")
    parser.add_argument("--most", type=int, help="most sentences of each genre of each file")
    parser.add_argument("--models", type=Path, help="the translation models, or the chat model")
    parser.add_argument("--device")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no batch later")
    parser.add_argument(
        "--share", type=int, nargs=2, default=(0, 1), metavar=("I", "N"),
        help="every N-th sentence from the I-th on; cat joins the files of shares",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    out = options.out or DATA / "rewrites" / f"{options.rewriter}.jsonl.gz"
    rewrites = read_rewrites(out) if out.exists() else {}
    first, step = options.share
    selected: dict[str, None] = {}
    for path in options.passages:
        counts: dict[str, int] = {}
        for passage in read_passages(path, split=options.split):
            genre, sentences = passage["genre"], passage["sentences"]
            if options.genres and genre not in options.genres:
                continue
            if options.most and counts.get(genre, 0) >= options.most:
                continue
            counts[genre] = counts.get(genre, 0) + len(sentences)
            selected.update(dict.fromkeys(sentences))
    remaining = [sentence for sentence in list(selected)[first::step] if sentence not in rewrites]
    rewriter = build(options.rewriter, folder=options.models, device=options.device)
    rng = np.random.default_rng([options.seed, first, len(rewrites)])
    for count, (sentence, changed) in enumerate(
        rewrite_all(rewriter, remaining, rng=rng, batch=options.batch, seconds=options.seconds)
    ):
        rewrites[sentence] = changed
        if (count + 1) % max(options.batch, 5000) == 0:
            write_rewrites(out, rewrites)  # an interrupted run loses little
    write_rewrites(out, rewrites)
    print(f"{out}: {len(rewrites)} rewrites")


if __name__ == "__main__":
    main()
