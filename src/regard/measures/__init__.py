"""Measures: numbers computed from a trace, by pure functions that never run a model.

A measure takes a trace and a site, and returns one number per head, or a table of them. A trace of
five tokens, whose one head attends to the token before::

    >>> import torch
    >>> from regard.measures import head_numbers, leading_roles
    >>> from regard.types import Trace
    >>> weights = torch.eye(5)[[0, 0, 1, 2, 3]]
    >>> trace = Trace.from_weights(weights, ["we", "love", "tea", "and", "cats"])
    >>> head_numbers(trace, "weights").on_previous.item()  # the first token has none before it
    0.8
    >>> leading_roles(trace, "weights")
    <LeadingRoles: previous 100%>

Which file holds what:

- `heads`: entropy, distances, and where the weight falls, for each head; `token_kinds` tells
  special tokens and punctuation apart;
- `roles`: roles from the literature; `repeated_tokens`, `head_detector`: induction, duplicates;
- `head_distances`: how similar heads and layers are; `text_variation`: one head over several texts;
- `decoding`, `alignment`: cross-attention of translators, and word links;
- `row_validity`: whether rows are valid weights at all; `finite_rows`: traces without NaN rows;
- `faithfulness`: the arithmetic of erasure curves and rank agreement.

Where a trace keeps statistics that were taken while the model ran, measures use them. Otherwise
they read the weights in strips of rows, so that no measure holds all query x key weights of a long
text in memory.
"""

from regard.measures.alignment import (
    GoldLinks,
    LinkAgreement,
    agreement,
    argmax_links,
    grow_diag,
    intersect_links,
    merge_pieces,
    read_gold_links,
    threshold_links,
)
from regard.measures.decoding import coverage, fertility, merge_words, monotonicity, revisits
from regard.measures.faithfulness import (
    area_over_curve,
    bin_sizes,
    comprehensiveness,
    kendall,
    ranking,
    spearman,
    sufficiency,
)
from regard.measures.head_detector import pattern_share
from regard.measures.head_distances import Drift, compares_rows, distances, drift, redundancy
from regard.measures.heads import HeadNumbers, distance_profile, head_numbers
from regard.measures.repeated_tokens import RepeatAttention, repeat_attention
from regard.measures.roles import LeadingRoles, Role, aligner, best_offsets, leading_roles, roles

__all__ = [
    "Drift",
    "GoldLinks",
    "HeadNumbers",
    "LeadingRoles",
    "LinkAgreement",
    "RepeatAttention",
    "Role",
    "agreement",
    "aligner",
    "area_over_curve",
    "argmax_links",
    "best_offsets",
    "bin_sizes",
    "compares_rows",
    "comprehensiveness",
    "coverage",
    "distance_profile",
    "distances",
    "drift",
    "fertility",
    "grow_diag",
    "head_numbers",
    "intersect_links",
    "kendall",
    "leading_roles",
    "merge_pieces",
    "merge_words",
    "monotonicity",
    "pattern_share",
    "ranking",
    "read_gold_links",
    "redundancy",
    "repeat_attention",
    "revisits",
    "roles",
    "spearman",
    "sufficiency",
    "threshold_links",
]
