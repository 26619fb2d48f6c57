"""Rewrites by a chat model that is asked for them, many sentences at a time.

The requests are others than those of the attack `hammingmark.attacks.rewrite`, and the languages
others than that of Bergamot, so that both can still be used to evaluate. A rewrite that cannot be
used is the empty string.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hammingmark.attacks.response_cleanup import clean
from hammingmark.attacks.segments import one_line
from hammingmark.pretrained import load

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
    """A chat model of transformers.

    Args:
        source: a folder or a GGUF file.
        device: where to compute.
        batch: sentences at a time.
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
        words = self._loaded.tokenizer
        words.padding_side = "left"
        names = ("<|im_end|>", "<|endoftext|>", words.eos_token)
        found = (words.convert_tokens_to_ids(name) for name in names if name)
        self._ends = sorted({end for end in found if end is not None and end != words.unk_token_id})
        if words.pad_token is None:
            words.pad_token = words.eos_token

    def answer(
        self, asked: Sequence[str], *, temperatures: Sequence[float], rng: np.random.Generator
    ) -> list[str | None]:
        """An answer to each request, or None where it does not come to an end.

        The temperature is drawn for each batch.
        """
        torch, words = self._loaded.torch, self._loaded.tokenizer
        texts = [
            words.apply_chat_template(
                [{"role": "system", "content": SYSTEM}, {"role": "user", "content": each}],
                tokenize=False,
                add_generation_prompt=True,
            )
            for each in asked
        ]
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        found: list[str | None] = [None] * len(texts)
        for begin in range(0, len(order), self._batch):
            part = order[begin : begin + self._batch]
            tokens = words(
                [texts[index] for index in part],
                add_special_tokens=False,
                padding=True,
                return_tensors="pt",
            ).to(self._loaded.device)
            longest = max(len(asked[index]) for index in part)
            with self._loaded.seeded(int(rng.integers(2**31))):
                made = self._loaded.model.generate(
                    **tokens,
                    do_sample=True,
                    temperature=float(rng.choice(np.array(temperatures))),
                    top_k=TOP_K,
                    top_p=1.0,
                    max_new_tokens=24 + longest // 4,
                    eos_token_id=self._ends,
                    pad_token_id=words.pad_token_id,
                )
            fresh = made[:, tokens["input_ids"].shape[1] :]
            ended = torch.isin(fresh, torch.tensor(self._ends, device=fresh.device)).any(dim=1)
            answers = words.batch_decode(fresh, skip_special_tokens=True)
            for index, answer, whole in zip(part, answers, ended.tolist(), strict=True):
                found[index] = answer if whole else None
        return found


def reworded(model: ChatModel, sentences: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Each sentence by one of several requests."""
    chosen = rng.integers(len(REQUESTS), size=len(sentences))
    asked = [
        REQUESTS[number].format(text=text) for number, text in zip(chosen, sentences, strict=True)
    ]
    answers = model.answer(asked, temperatures=TEMPERATURES, rng=rng)
    return [usable(answer, text) for answer, text in zip(answers, sentences, strict=True)]


def translated(model: ChatModel, sentences: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Each sentence into another language and back."""
    chosen = [LANGUAGES[i] for i in rng.integers(len(LANGUAGES), size=len(sentences))]
    forth = [
        FORTH.format(language=language, text=text)
        for language, text in zip(chosen, sentences, strict=True)
    ]
    answers = model.answer(forth, temperatures=TEMPERATURES[:2], rng=rng)
    foreign = [usable(answer, text) for answer, text in zip(answers, sentences, strict=True)]
    places = [place for place, text in enumerate(foreign) if text]
    back = [BACK.format(language=chosen[place], text=foreign[place]) for place in places]
    made = [""] * len(sentences)
    found = model.answer(back, temperatures=TEMPERATURES[:2], rng=rng)
    for place, answer in zip(places, found, strict=True):
        text = usable(answer, sentences[place])
        made[place] = "" if text == foreign[place] else text
    return made


def usable(answer: str | None, sentence: str) -> str:
    """The rewrite in an answer; empty if there is none, or it is as before, or far too long."""
    if answer is None:
        return ""
    text = clean(answer, original=sentence, whole=False)
    if not isinstance(text, str):
        return ""
    text = one_line(text)
    fits = 0.4 * len(sentence) <= len(text) <= 2.0 * len(sentence) + 20
    return text if fits and text != one_line(sentence) else ""
