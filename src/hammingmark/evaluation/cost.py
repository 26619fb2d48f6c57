"""What texts cost, over all of them."""

from __future__ import annotations

from collections.abc import Sequence

from hammingmark.records import Generation


def account(generations: Sequence[Generation]) -> dict[str, float]:
    """Samples, tokens and refusals a sentence, and the shares accepted and spent on embedding."""
    costs = [generation.cost for generation in generations]
    sentences = max(1, sum(len(generation.sentences) for generation in generations))
    tried = sum(cost.tried for cost in costs)
    seconds = sum(cost.seconds for cost in costs)
    return {
        "samples": sum(cost.candidates for cost in costs) / sentences,
        "tokens": sum(cost.drawn_tokens for cost in costs) / sentences,
        "drawn_over_emitted": sum(cost.drawn_tokens for cost in costs)
        / max(1, sum(cost.tokens for cost in costs)),
        "spare_tokens": sum(cost.spare_tokens for cost in costs) / sentences,
        "acceptance": sum(cost.passed for cost in costs) / tried if tried else 1.0,
        "fallback": sum(cost.fallbacks for cost in costs) / sentences,
        "repeats": sum(cost.repeats for cost in costs) / sentences,
        "misfits": sum(cost.misfits for cost in costs) / sentences,
        "encoder_share": sum(cost.encoder_seconds for cost in costs) / seconds if seconds else 0.0,
    }
