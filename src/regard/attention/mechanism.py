"""The mechanism, composed of score, normalizer, mask and bias, and the functions that apply it.

`attend` gives contexts, `weights` the attention weights, `choose` the choices of hard attention.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function

from regard.arguments import check_type
from regard.attention.fused import attend_fused
from regard.attention.hard import Choice, Hard
from regard.attention.inputs import Inputs, Keys, Queries, Values, admit, check_finite, lower
from regard.attention.normalizers import Normalizer, RowSum, Softmax
from regard.attention.scores import Factors, InnerProductScore, ScaledDotScore, Score
from regard.attention.sliced import Kernel
from regard.attention.terms import Terms
from regard.errors import InputError
from regard.masks import Bias, Mask, everything

Contexts = Float[Tensor, "*batch query dim"]
Rows = Float[Tensor, "batch head query key"]

_SCORES = 1 << 21  # scores held at a time where the fused kernel cannot be used
_LEAST_ROWS = 64  # queries in a block under a window, at least: smaller blocks cost overhead


class Mechanism(nn.Module):
    """An attention mechanism: normalizer(score(q, K) + bias) V over the keys that the mask shows.

    Every piece can be exchanged. The bias may be a module that returns a Bias when called, such as
    RelativePositions. While training, `dropout` is applied to the weights (Vaswani et al. 2017,
    section 5.4).

    >>> import torch
    >>> from regard.attention import DotScore, Mechanism, Sparsemax
    >>> from regard.masks import causal
    >>> sparse = Mechanism(DotScore(), Sparsemax(), mask=causal())
    >>> x = torch.eye(3)
    >>> sparse(x, x, x).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    def __init__(
        self,
        score: Score | None = None,
        normalizer: Normalizer | None = None,
        *,
        mask: Mask | None = None,
        bias: Bias | nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not 0.0 <= dropout < 1.0:
            raise InputError(f"Mechanism expected a dropout from 0 to below 1, got {dropout}")
        if dropout and isinstance(normalizer, Hard):
            raise InputError("hard attention has one weight to drop; build it with dropout=0")
        self.score = ScaledDotScore() if score is None else score
        self.normalizer = Softmax() if normalizer is None else normalizer
        self.mask = everything() if mask is None else mask
        self.bias = bias
        self.dropout = dropout

    @property
    def row_sum(self) -> RowSum:
        """What the weights of a row that sees a key sum to: declared by the normalizer."""
        return self.normalizer.row_sum

    @property
    def one_hot(self) -> bool:
        """True if one key of each row gets all the weight: declared by the normalizer."""
        return self.normalizer.one_hot

    def forward(
        self, query: Queries, key: Keys, value: Values, mask: Mask | None = None
    ) -> Contexts:
        """The context of each query, by `attend` with this mechanism."""
        return attend(query, key, value, self, mask)

    def terms(self, mask: Mask | None, bias: Bias | None, offset: int) -> Terms:
        """The mask and bias of a call combined with the mechanism's own."""
        own = self.bias() if isinstance(self.bias, nn.Module) else self.bias
        if own is not None:
            bias = own if bias is None else own + bias
        return Terms(self.mask if mask is None else self.mask & mask, bias, offset)

    def scores(self, inputs: Inputs, terms: Terms, rows: range) -> Rows:
        """The scores of the queries `rows` with the bias, -inf where the mask hides a key."""
        query, key = inputs.query[:, :, rows.start : rows.stop], _repeat_heads(inputs.key, inputs)
        area = terms.area(rows, key.shape[2], key.device)
        return terms.apply(self.score(query, key), area)

    def weigh(self, inputs: Inputs, terms: Terms, rows: range) -> Rows:
        """The weights of the queries `rows`."""
        weights: Rows = self.normalizer(self.scores(inputs, terms, rows))
        return weights

    def mix(self, inputs: Inputs, terms: Terms, rows: range) -> Float[Tensor, "batch head row dim"]:
        """The context of the queries `rows`."""
        value = _repeat_heads(inputs.value, inputs)
        if self.dropout and self.training:
            return F.dropout(self.weigh(inputs, terms, rows), self.dropout) @ value
        return self.normalizer.mix(self.scores(inputs, terms, rows), value)

    def context(self, inputs: Inputs, terms: Terms) -> Float[Tensor, "batch head query dim"]:
        """The context of all queries, by the fused kernel if it applies, else in blocks."""
        factors = self.factors(inputs)
        if factors is None:
            return self.in_blocks(inputs, terms)
        query, key, scale = factors
        kernel = Kernel(scale, self.dropout if self.training else 0.0)
        return attend_fused(query, key, inputs.value, terms, kernel)

    def factors(self, inputs: Inputs) -> Factors | None:
        """Query, key and scale if this is a softmax over inner products; None otherwise."""
        if isinstance(self.score, InnerProductScore) and type(self.normalizer) is Softmax:
            return self.score.factors(inputs.query, inputs.key)
        return None

    def in_blocks(self, inputs: Inputs, terms: Terms) -> Float[Tensor, "batch head query dim"]:
        """The context of all queries, a block at a time, with the keys that the block can reach."""
        batch, heads, queries, _ = inputs.query.shape
        keys, budget = inputs.key.shape[2], _SCORES // (batch * heads)
        if budget >= queries * keys or torch.compiler.is_compiling():
            return self.mix(inputs, terms, range(queries))
        band, _ = terms.mask.split()
        step = max(1, budget // keys)
        if band.left is not None and band.right is not None:
            # a block of `width` queries reaches about 2 x width keys: half of its scores are used
            width = max(_LEAST_ROWS, band.left + 1 + band.right)
            step = max(step, min(width, budget // (2 * width)))
        contexts = []
        for start in range(0, queries, step):
            rows = range(start, min(start + step, queries))
            # scores need at least one key, even one that the mask hides
            reach = band.reach(terms.area(rows, keys, inputs.query.device)) or range(1)
            near = slice(reach.start, reach.stop)
            part = Inputs(inputs.query, inputs.key[:, :, near], inputs.value[:, :, near])
            contexts.append(self.mix(part, replace(terms, first=reach.start), rows))
        return torch.cat(contexts, dim=2)

    def extra_repr(self) -> str:
        """The mask, bias and dropout, which are not modules."""
        bias = f", bias={self.bias}" if isinstance(self.bias, Bias) else ""
        return f"mask={self.mask}{bias}" + (f", dropout={self.dropout}" if self.dropout else "")


SCALED_DOT = Mechanism()


def attend(
    query: Queries,
    key: Keys,
    value: Values,
    mechanism: Mechanism = SCALED_DOT,
    mask: Mask | None = None,
    *,
    bias: Bias | None = None,
    offset: int = 0,
) -> Contexts:
    """The context of each query: the values mixed by its weights.

    Two axes are (length, dim), three (batch, length, dim), four (batch, head, length, dim); the
    key may have fewer heads than the query, each shared by a group of query heads. Query i stands
    at position offset + i. A TorchFunctionMode intercepts this call as one function.

    >>> import torch, regard
    >>> value = torch.tensor([[3.0], [6.0], [9.0]])
    >>> regard.attend(torch.zeros(1, 4), torch.zeros(3, 4), value).tolist()
    [[6.0]]
    """
    check_type(query, Tensor, "attend", "query")
    if has_torch_function((query, key, value)):
        context: Contexts = handle_torch_function(
            attend,
            (query, key, value),
            query,
            key,
            value,
            mechanism,
            mask,
            bias=bias,
            offset=offset,
        )
        return context
    inputs, terms = _check_call(query, key, value, mechanism, mechanism.terms(mask, bias, offset))
    result = mechanism.context(inputs, terms)
    check_finite(result, inputs)
    return lower(result, query.dim())


def weights(
    query: Queries,
    key: Keys,
    mechanism: Mechanism = SCALED_DOT,
    mask: Mask | None = None,
    *,
    bias: Bias | None = None,
    offset: int = 0,
) -> Float[Tensor, "*batch query key"]:
    """The attention weights of each query over all keys, as a dense query x key tensor per head.

    >>> import torch, regard
    >>> from regard.masks import causal
    >>> regard.weights(torch.zeros(2, 4), torch.zeros(2, 4), mask=causal()).tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    check_type(query, Tensor, "weights", "query")
    inputs, terms = _check_call(query, key, key, mechanism, mechanism.terms(mask, bias, offset))
    result = mechanism.weigh(inputs, terms, range(inputs.query.shape[2]))
    check_finite(result, inputs)
    return lower(result, query.dim())


def choose(
    query: Queries,
    key: Keys,
    value: Values,
    mechanism: Mechanism,
    mask: Mask | None = None,
    *,
    generator: torch.Generator | None = None,
    offset: int = 0,
) -> Choice:
    """The choices of hard attention and their log-probabilities for REINFORCE.

    The gradient of the log-probability trains the scores (Xu et al. 2015, eq. 12).

    >>> import torch, regard
    >>> from regard.attention import DotScore, Hard, Mechanism
    >>> hard = Mechanism(DotScore(), Hard()).eval()
    >>> x = torch.eye(2)
    >>> regard.choose(x, x, x, hard).index.tolist()
    [0, 1]
    """
    check_type(query, Tensor, "choose", "query")
    if not isinstance(mechanism.normalizer, Hard):
        raise InputError(
            "choose expected a mechanism with the normalizer Hard or StraightThrough, got "
            f"{type(mechanism.normalizer).__name__}; use attend"
        )
    inputs, terms = _check_call(query, key, value, mechanism, mechanism.terms(mask, None, offset))
    scores = mechanism.scores(inputs, terms, range(inputs.query.shape[2]))
    choice = mechanism.normalizer.choose(scores, _repeat_heads(inputs.value, inputs), generator)
    check_finite(choice.log_probability, inputs)
    axes = query.dim()
    return Choice(
        lower(choice.context, axes), lower(choice.index, axes), lower(choice.log_probability, axes)
    )


def _check_call(
    query: Tensor, key: Tensor, value: Tensor, mechanism: Mechanism, terms: Terms
) -> tuple[Inputs, Terms]:
    """The inputs with four axes, and the terms, after checking that all of them fit together."""
    inputs = admit(query, key, value)
    mechanism.score.check(query.shape[-1], key.shape[-1])
    batch, heads, queries, _ = inputs.query.shape
    terms.mask.check(batch, heads, queries, inputs.key.shape[2])
    if terms.bias is not None:
        terms.bias.check(batch, heads, queries, inputs.key.shape[2])
    return inputs, terms


def _repeat_heads(side: Tensor, inputs: Inputs) -> Tensor:
    """Keys or values repeated so that they have a head for each query head."""
    groups = inputs.query.shape[1] // side.shape[1]
    return side if groups == 1 else side.repeat_interleave(groups, dim=1)
