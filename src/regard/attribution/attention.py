"""Raw attention of the last layer as an attribution: the baseline for all other methods."""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attribution.clean_run import CleanRun


def last_layer_attention(run: CleanRun) -> Float[Tensor, " token"]:
    """The weight of each token for the objective: the mean of the last layer's heads.

    Of an encoder-decoder it is the last cross map, over all rows; else the last map, over the rows
    that lead to the objective, or over all rows if no single row does.
    """
    last = run.last_map
    columns = range(len(last.columns))
    parts = [last.part(range(row, row + 1), columns) for row in run.objective_rows()] or [last]
    totals = [part.received().total.double().mean(dim=0) / len(part.rows) for part in parts]
    return run.columns_to_tokens(torch.stack(totals).mean(dim=0).cpu())
