"""Beam search in groups that avoid each other's words (Vijayakumar et al., 2016).

Parrot was published with it, and newer versions of the transformers library no longer have it. At
each step the groups choose one after another. A token loses ``diversity`` nats for each time that
an earlier group has chosen it at this step.
"""

from __future__ import annotations

from typing import Any

from hammingmark.attacks.decoding import Decoding
from hammingmark.pretrained import Loaded

_LONGEST = 512  # tokens of an answer, if neither the attack nor the model sets a limit
_NEVER = -1e9  # the score of the unused beams before the first step


class _Group:
    """A group of beams.

    Attributes:
        rows: the tokens of each beam, without the start token.
        scores: the log-probability of each beam, penalties included.
        finished: finished answers as (length-normalised score, tokens), the best first.
    """

    def __init__(self, size: int, *, length_penalty: float) -> None:
        self.size = size
        self._length_penalty = length_penalty
        self.rows: list[list[int]] = [[] for _ in range(size)]
        self.scores = [0.0, *[_NEVER] * (size - 1)]
        self.finished: list[tuple[float, list[int]]] = []

    @property
    def done(self) -> bool:
        return len(self.finished) >= self.size

    def step(self, totals: Any, ends: set[int]) -> list[int]:
        """Extend the beams by the best scores (size, V); return each beam's parent row."""
        vocabulary = totals.shape[-1]
        count = (1 + len(ends)) * self.size  # enough even if all the likeliest tokens end an answer
        best = totals.flatten().topk(min(count, totals.numel()))
        rows: list[list[int]] = []
        scores: list[float] = []
        parents: list[int] = []
        ranked = zip(best.values.tolist(), best.indices.tolist(), strict=True)
        for rank, (score, place) in enumerate(ranked):
            parent, token = divmod(place, vocabulary)
            row = [*self.rows[parent], token]
            if token in ends:
                if rank < self.size:
                    self.finish(row, score)
            elif len(rows) < self.size:
                rows.append(row)
                scores.append(score)
                parents.append(parent)
        self.rows, self.scores = rows, scores
        return parents

    def finish(self, row: list[int], score: float) -> None:
        """Add an answer, and keep the best."""
        self.finished.append((score / len(row) ** self._length_penalty, row))
        self.finished.sort(key=lambda answer: -answer[0])
        del self.finished[self.size :]


def diverse_beams(loaded: Loaded, batch: Any, decoding: Decoding) -> list[list[int]]:
    """The best answers to each text of a batch, ``decoding.returns`` each, the best first."""
    answers: list[list[int]] = []
    for number in range(len(batch["input_ids"])):
        mask = batch["attention_mask"][number].bool()
        answers += _search(loaded, batch["input_ids"][number][mask], decoding)
    return answers


def _search(loaded: Loaded, ids: Any, decoding: Decoding) -> list[list[int]]:
    torch, model = loaded.torch, loaded.model
    settings = model.generation_config
    start = settings.decoder_start_token_id
    if start is None:
        start = model.config.decoder_start_token_id
    ends = set(torch.tensor([settings.eos_token_id]).flatten().tolist())
    beams, size = decoding.beams, decoding.beams // decoding.groups
    encoded = model.get_encoder()(input_ids=ids[None], return_dict=True)
    encoded.last_hidden_state = encoded.last_hidden_state.expand(beams, -1, -1)
    mask = torch.ones(beams, len(ids), dtype=torch.long, device=loaded.device)
    penalty = 1.0 if settings.length_penalty is None else float(settings.length_penalty)
    groups = [_Group(size, length_penalty=penalty) for _ in range(decoding.groups)]
    last = torch.full((beams, 1), start, device=loaded.device)
    past: Any = None
    limit = decoding.limit(read=len(ids), most=settings.max_length) or _LONGEST
    for _ in range(limit - 1):
        output = model(
            encoder_outputs=encoded,
            attention_mask=mask,
            decoder_input_ids=last,
            past_key_values=past,
            use_cache=True,
        )
        past = output.past_key_values
        log_p = output.logits[:, -1].float().log_softmax(-1).cpu()
        taken = torch.zeros(log_p.shape[-1])
        parents = list(range(beams))
        for number, group in enumerate(groups):
            if group.done:
                continue
            first = number * size
            scores = torch.tensor(group.scores)[:, None]
            penalised = log_p[first : first + size] - decoding.diversity * taken
            parents[first : first + size] = [
                first + parent for parent in group.step(scores + penalised, ends)
            ]
            for row in group.rows:
                taken[row[-1]] += 1
        if all(group.done for group in groups):
            break
        past.reorder_cache(torch.tensor(parents, device=loaded.device))
        tokens = [row[-1] for group in groups for row in group.rows]
        last = torch.tensor(tokens, device=loaded.device)[:, None]
    for group in groups:
        if not group.done:
            for row, score in zip(group.rows, group.scores, strict=True):
                group.finish(row, score)
    answers = sorted(
        (answer for group in groups for answer in group.finished), key=lambda answer: -answer[0]
    )
    return [row for _, row in answers[: decoding.returns]]
