"""The encoder being trained: a base model with additions to its weights.

Every linear map W of the base gets a low-rank addition, W + B A; biases and layer norms are
trained in full. Only these are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.utils import parametrize

MAX_TOKENS = 96


class LowRank(nn.Module):  # type: ignore[misc]
    """W to W + B A, with A random and B zero at the start."""

    def __init__(self, weight: torch.Tensor, rank: int) -> None:
        super().__init__()
        rows, columns = weight.shape
        initial = torch.randn(rank, columns, device=weight.device) / columns**0.5
        self.a = nn.Parameter(initial)
        self.b = nn.Parameter(torch.zeros(rows, rank, device=weight.device))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """The sum."""
        return weight + self.b @ self.a


class SentenceEncoder(nn.Module):  # type: ignore[misc]
    """A transformer with mean pooling and normalised embeddings.

    Args:
        folder: the base model, as sentence-transformers keeps it.
        rank: of the additions; 0 trains every weight instead.
        device: the device of the model.
    """

    def __init__(self, folder: Path, *, rank: int, device: str) -> None:
        from transformers import AutoModel, AutoTokenizer

        super().__init__()
        self.rank = rank
        self.device = device
        self.tokenizer = AutoTokenizer.from_pretrained(str(folder))
        self.body = AutoModel.from_pretrained(str(folder), dtype=torch.float32).to(device)
        self.body.pooler = None
        for parameter in self.body.parameters():
            parameter.requires_grad_(rank == 0)
        if rank:
            for module in self._linears().values():
                module.bias.requires_grad_(True)
                parametrize.register_parametrization(module, "weight", LowRank(module.weight, rank))
            for module in self._norms().values():
                for parameter in module.parameters():
                    parameter.requires_grad_(True)

    def _linears(self) -> dict[str, Any]:
        named = self.body.encoder.named_modules(prefix="encoder")
        return {name: module for name, module in named if isinstance(module, nn.Linear)}

    def _norms(self) -> dict[str, Any]:
        named = self.body.named_modules()
        return {name: module for name, module in named if isinstance(module, nn.LayerNorm)}

    def tokens(self, sentences: Sequence[str]) -> Any:
        """A padded batch."""
        return self.tokenizer(
            list(sentences),
            padding=True,
            truncation=True,
            max_length=MAX_TOKENS,
            return_tensors="pt",
        )

    def forward(self, batch: Any) -> torch.Tensor:
        """Embeddings of a padded batch: (n, d), float32."""
        hidden = self.body(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
        ).last_hidden_state
        mask = batch["attention_mask"][:, :, None].to(hidden.dtype)
        pooled = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
        return nn.functional.normalize(pooled.float(), dim=-1)

    def encode(self, sentences: Sequence[str], *, batch: int = 512) -> NDArray[np.float32]:
        """Embed sentences: (n, d)."""
        order = sorted(range(len(sentences)), key=lambda index: len(sentences[index]))
        embeddings = np.empty((len(sentences), self.body.config.hidden_size), np.float32)
        with torch.inference_mode():
            for begin in range(0, len(order), batch):
                indices = order[begin : begin + batch]
                tokens = self.tokens([sentences[index] for index in indices]).to(self.device)
                embeddings[indices] = self(tokens).cpu().numpy()
        return embeddings

    def additions(self) -> dict[str, torch.Tensor]:
        """The additions to the base: ``NAME.a``, ``NAME.b``, and the biases and norms in full."""
        tensors: dict[str, torch.Tensor] = {}
        for name, module in self._linears().items():
            addition = module.parametrizations.weight[0]
            tensors[f"{name}.a"] = addition.a
            tensors[f"{name}.b"] = addition.b
            tensors[f"{name}.bias"] = module.bias
        for name, module in self._norms().items():
            tensors[f"{name}.weight"] = module.weight
            tensors[f"{name}.bias"] = module.bias
        return {
            name: tensor.detach().float().cpu().contiguous() for name, tensor in tensors.items()
        }

    def save(self, path: Path) -> None:
        """Write the additions, or all weights if all were trained."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.rank:
            save_file(self.additions(), str(path))
        else:
            weights = {k: v.contiguous().cpu() for k, v in self.body.state_dict().items()}
            save_file(weights, str(path))

    def load(self, path: Path) -> None:
        """Read what `save` wrote."""
        stored = load_file(str(path))
        if not self.rank:
            self.body.load_state_dict(stored, strict=False)
            return
        with torch.no_grad():
            for name, module in self._linears().items():
                addition = module.parametrizations.weight[0]
                addition.a.copy_(stored[f"{name}.a"])
                addition.b.copy_(stored[f"{name}.b"])
                module.bias.copy_(stored[f"{name}.bias"])
            for name, module in self._norms().items():
                module.weight.copy_(stored[f"{name}.weight"])
                module.bias.copy_(stored[f"{name}.bias"])
