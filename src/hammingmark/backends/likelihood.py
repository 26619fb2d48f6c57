"""How likely a model of the transformers library finds a text."""

from __future__ import annotations

from pathlib import Path

from hammingmark.pretrained import load


class PretrainedLikelihood:
    """Negative log-likelihoods by a causal language model.

    Args:
        source: a folder, a name on the hub, or a GGUF file.
        device: by default a CUDA device if there is one.
        dtype: ``"bfloat16"`` is faster on CUDA.
        separator: stands between prompt and text, and belongs to neither.
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
        """Of a text after its prompt, in nats, and the number of its tokens.

        Where there is no prompt, the text's first token is not counted.
        """
        torch, tokenizer = self._loaded.torch, self._loaded.tokenizer
        before = tokenizer(prompt + self._separator).input_ids if prompt else []
        tokens = tokenizer(text).input_ids
        ids = torch.tensor([(before + tokens)[: self._max_tokens]], device=self._loaded.device)
        first = max(1, len(before))
        if ids.shape[1] <= first:
            return 0.0, 0
        with torch.inference_mode():
            logits = self._loaded.model(ids).logits[0, first - 1 : -1].float()
        targets = ids[0, first:]
        loss = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
        return float(loss), len(targets)
