"""Output heads: logits of the next token, of classes, or of where an answer starts and ends."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention import attend
from regard.masks import padding
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.embeddings import make_norm
from regard.models.transformer.layers import activation

Hidden = Float[Tensor, "batch length hidden"]
Real = Bool[Tensor, "batch length"]


class LanguageHead(nn.Module):
    """The logits of the next token; its matrix may be the token embedding (Press & Wolf 2017)."""

    def __init__(self, config: TransformerConfig, vocab: int, tied: Tensor | None) -> None:
        super().__init__()
        self.transform = Transform(config) if config.head_transform else None
        self.output = nn.Linear(config.d_model, vocab, bias=config.output_bias)
        if tied is not None:
            self.output.weight = tied
        if self.output.bias is not None:
            nn.init.zeros_(self.output.bias)

    def forward(
        self, hidden: Hidden, real: Real | None = None
    ) -> Float[Tensor, "batch length vocab"]:
        """The logits after each position."""
        logits: Tensor = self.output(self.features(hidden))
        return logits

    def features(self, hidden: Hidden) -> Hidden:
        """The input of the output layer."""
        return hidden if self.transform is None else self.transform(hidden)


class Transform(nn.Module):
    """A layer before the logits of a masked language model (Devlin et al. 2019)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.activation = activation(config.activation)
        self.norm = make_norm(config)

    def forward(self, hidden: Hidden) -> Hidden:
        """The transformed vector of each position."""
        transformed: Tensor = self.norm(self.activation(self.dense(hidden)))
        return transformed


class Pooler(nn.Module):
    """tanh(W h + b) of the first token (Devlin et al. 2019)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.d_model, config.d_model)

    def forward(self, hidden: Hidden) -> Float[Tensor, "batch hidden"]:
        """One vector for each text."""
        return torch.tanh(self.dense(hidden[:, 0]))


class AttentivePooling(nn.Module):
    """A learned query attends over the tokens: u . k, softmax (Yang et al. 2016, eq. 5 to 7)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(config.d_model))
        self.w_k = nn.Linear(config.d_model, config.d_model)
        nn.init.normal_(self.query, std=0.02)

    def forward(self, hidden: Hidden, real: Real | None = None) -> Float[Tensor, "batch hidden"]:
        """One vector for each text, a weighted sum over its real tokens."""
        query = self.query.expand(len(hidden), 1, -1)
        mask = None if real is None else padding(real)
        # under autocast the linear layer gives bfloat16, while the query and `hidden` are float32
        keys = torch.tanh(self.w_k(hidden)).to(query.dtype)
        return attend(query, keys, hidden.to(query.dtype), mask=mask)[:, 0]


class ClassificationHead(nn.Module):
    """The logits of the classes, from one vector of the whole text or image."""

    def __init__(self, config: TransformerConfig, pooler: Pooler | None) -> None:
        super().__init__()
        self.attentive = AttentivePooling(config) if config.pooling == "attentive" else None
        self.pooler = pooler if config.pooling == "pooler" else None
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.d_model, config.labels)

    def forward(self, hidden: Hidden, real: Real | None = None) -> Float[Tensor, "batch label"]:
        """The logits of each text or image."""
        if self.attentive is not None:
            pooled = self.attentive(hidden, real)
        elif self.pooler is not None:
            pooled = self.pooler(hidden)
        else:
            pooled = hidden[:, 0]
        logits: Tensor = self.output(self.dropout(pooled))
        return logits


class SpanHead(nn.Module):
    """For each token the logits that an answer starts there, and that it ends there."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.output = nn.Linear(config.d_model, 2)

    def forward(self, hidden: Hidden, real: Real | None = None) -> Float[Tensor, "batch length 2"]:
        """The logits of start and end, in the last axis."""
        logits: Tensor = self.output(hidden)
        return logits
