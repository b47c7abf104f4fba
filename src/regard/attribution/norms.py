"""Value norms: how much each key contributes, its weight times the norm of its value vector."""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.arguments import check_first_argument
from regard.attribution.clean_run import CleanRun
from regard.errors import InputError
from regard.tracing import Keep
from regard.tracing.inputs.example import trace_example
from regard.types import Trace, ValueNorms
from regard.types.attribution import VectorKind, value_lengths


@check_first_argument
def value_norms(trace: Trace, site: str) -> ValueNorms:
    """The value norms of one site, of a trace that keeps values (Kobayashi et al. 2020).

    Watch with `keep=Keep(values=True, outputs=True)`, which also keeps the output projection W_O
    where the heads' contexts go straight into it.

    >>> import torch, regard
    >>> from regard.attribution import value_norms
    >>> from regard.tracing import Keep
    >>> attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.randn(1, 5, 8)
    >>> with regard.watch(attention, keep=Keep(values=True, outputs=True)) as seen:
    ...     _ = attention(x, x, x)
    >>> norms = value_norms(seen[0], "MultiheadAttention")
    >>> norms.of, norms.lengths.shape
    ('projected values', torch.Size([2, 5]))
    """
    attention_map = trace[site]
    if attention_map.values is None:
        raise InputError(
            f"the map of {site!r} keeps no values, so their norms are unknown; watch again with "
            "keep=Keep(values=True, outputs=True)"
        )
    kind: VectorKind = "values" if attention_map.output_projection is None else "projected values"
    return ValueNorms(kind, value_lengths(attention_map), attention_map)


def token_value_norms(run: CleanRun) -> Float[Tensor, " token"]:
    """The value norms of the last layer for each token: the mean over the objective's rows.

    Heads are added up as vectors where the output projection is known; else their norms are
    averaged.
    """
    keep = Keep(values=True, outputs=True)
    _, trace = trace_example(run.model, run.example, keep=keep, atlas=0)
    norms = value_norms(trace, run.last_map.site)
    rows = run.objective_rows() or list(range(len(run.last_map.rows)))
    if norms.of == "projected values":
        parts = [norms.summed_over_heads(range(row, row + 1))[0] for row in rows]
    else:
        parts = list(norms.weights().mean(dim=0)[rows])
    return run.columns_to_tokens(torch.stack(parts).mean(dim=0).cpu())
