"""Local attention around a position that is predicted from the query (Luong et al. 2015, 3.2)."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.inputs import Inputs
from regard.attention.mechanism import Mechanism, Rows
from regard.attention.normalizers import RowSum
from regard.attention.scores import Score
from regard.attention.terms import Terms
from regard.errors import InputError
from regard.masks import Mask


class PredictiveLocal(Mechanism):
    """Predictive local attention (local-p): a window around a predicted centre, times a Gaussian.

    The centre is p = S sigmoid(v . tanh(W q)) (eq. 9), S the number of keys that the query sees,
    and the weight of key s in p - D .. p + D is softmax(e)_s exp(-(s - p)^2 / 2 sigma^2) with
    sigma = D / 2 (eq. 10), so that rows sum to less than one. Padding must come after the keys.
    """

    def __init__(
        self,
        query_dim: int,
        score: Score | None = None,
        *,
        radius: int = 10,
        mask: Mask | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(score, mask=mask, dropout=dropout)
        if radius < 1:
            raise InputError(f"PredictiveLocal expected a radius of at least one key, got {radius}")
        self.radius = radius
        self.W = nn.Parameter(torch.empty(query_dim, query_dim))
        self.v = nn.Parameter(torch.empty(query_dim))
        nn.init.xavier_uniform_(self.W)
        nn.init.normal_(self.v, std=1.0 / math.sqrt(query_dim))

    @property
    def row_sum(self) -> RowSum:
        """At most one, because the Gaussian factor shrinks the weights after the softmax."""
        return "any" if self.normalizer.row_sum == "any" else "at most one"

    def centre(
        self, query: Float[Tensor, "batch head query query_dim"], seen: Tensor
    ) -> Float[Tensor, "batch head query 1"]:
        """The predicted centre of each query, `seen` being its number of visible keys (eq. 9)."""
        return seen * torch.sigmoid(torch.tanh(F.linear(query, self.W)) @ self.v)[..., None]

    def weigh(self, inputs: Inputs, terms: Terms, rows: range) -> Rows:
        """The weights of the queries `rows` (eq. 10)."""
        scores = self.scores(inputs, terms, rows)
        query, keys = inputs.query[:, :, rows.start : rows.stop], inputs.key.shape[2]
        area = terms.area(rows, keys, query.device)
        seen = terms.mask.cut(area).sum(dim=-1, keepdim=True)
        columns = area.columns
        position = torch.arange(columns.start, columns.stop, device=query.device, dtype=query.dtype)
        distance = position - self.centre(query, seen.to(query.dtype))
        scores = scores.masked_fill(distance.abs() > self.radius, -torch.inf)
        weights: Rows = self.normalizer(scores)
        # 1 / (2 sigma^2) with sigma = D / 2 is 2 / D^2
        return weights * torch.exp(distance.square() * (-2.0 / self.radius**2))

    def mix(self, inputs: Inputs, terms: Terms, rows: range) -> Float[Tensor, "batch head row dim"]:
        """The context of the queries `rows`."""
        weights = F.dropout(self.weigh(inputs, terms, rows), self.dropout, self.training)
        groups = inputs.query.shape[1] // inputs.value.shape[1]
        return weights @ inputs.value.repeat_interleave(groups, dim=1)

    def factors(self, inputs: Inputs) -> None:
        """None: with a Gaussian after the softmax the fused kernel cannot be used."""
        return
