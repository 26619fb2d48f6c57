"""The likelihood of a text under a model of the transformers library."""

from __future__ import annotations

from pathlib import Path

from hammingmark.pretrained import load


class PretrainedLikelihood:
    """Negative log-likelihoods by a causal language model.

    Args:
        source: a folder, a name on the hub, or a GGUF file.
        device: by default CUDA if it is available.
        dtype: ``"bfloat16"`` is faster on CUDA.
        separator: put between prompt and text; its tokens are not counted.
        max_tokens: of prompt and text together; the rest of a text is not counted.
    """

    def __init__(
        self,
        source: str | Path,
        *,
        device: str | None = None,
        dtype: str = "float32",
        separator: str = " ",
        max_tokens: int = 1024,
    ) -> None:
        self.name = f"transformers:{Path(source).name}"
        self._loaded = load("AutoModelForCausalLM", source, device=device, dtype=dtype)
        self._separator = separator
        self._max_tokens = max_tokens

    def negative_log_likelihood(self, text: str, *, prompt: str) -> tuple[float, int]:
        """The negative log-likelihood of a text after its prompt, in nats, and its tokens' number.

        Without a prompt, the first token of the text is not counted.
        """
        torch, tokenizer = self._loaded.torch, self._loaded.tokenizer
        prompt_tokens = tokenizer(prompt + self._separator).input_ids if prompt else []
        tokens = tokenizer(text).input_ids
        ids = torch.tensor(
            [(prompt_tokens + tokens)[: self._max_tokens]], device=self._loaded.device
        )
        first = max(1, len(prompt_tokens))
        if ids.shape[1] <= first:
            return 0.0, 0
        with torch.inference_mode():
            logits = self._loaded.model(ids).logits[0, first - 1 : -1].float()
        targets = ids[0, first:]
        loss = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
        return float(loss), len(targets)
