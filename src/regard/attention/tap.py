"""The tap of `attend`: describes a call to those who watch a model.

Watching sees `attend` as one call, whatever its mechanism computes inside.
"""

from torch import Tensor

from regard.attention.inputs import admit, lower
from regard.attention.mechanism import SCALED_DOT, Mechanism, attend
from regard.errors import InputError
from regard.kernels.observe import Scoring
from regard.kernels.observe.taps import Tapped, register_tap
from regard.masks import Bias, Mask


def describe_attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mechanism: Mechanism = SCALED_DOT,
    mask: Mask | None = None,
    *,
    bias: Bias | None = None,
    offset: int = 0,
) -> Tapped | None:
    """The call as queries, keys and values with their scoring, or with the weights themselves.

    Softmax over inner products is described by its factors, from which the observing kernels
    compute the weights. For any other mechanism the weights are computed here. None if the inputs
    are invalid.
    """
    try:
        inputs = admit(query, key, value)
    except InputError:
        return None  # the call itself will raise the same error
    terms, axes = mechanism.terms(mask, bias, offset), query.dim()
    dropout = mechanism.dropout if mechanism.training else 0.0
    factors = mechanism.factors(inputs)
    if factors is not None:
        scoring = Scoring(scale=factors[2], mask=terms.mask, bias=terms.bias, offset=terms.offset)
        sides = factors[0], factors[1], inputs.value
        return Tapped(*sides, lambda context: lower(context, axes), scoring, dropout=dropout)
    weights = mechanism.weigh(inputs, terms, range(inputs.query.shape[2]))
    return Tapped(
        *inputs,
        lambda context: lower(context, axes),
        weights=weights,
        dropout=dropout,
        mask=terms.mask,
        offset=terms.offset,
    )


register_tap(attend, describe_attend)
