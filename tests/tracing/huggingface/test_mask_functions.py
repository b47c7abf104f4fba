"""Masks of transformers as descriptions: each equals the dense one that its function makes."""

import warnings

import pytest
import torch

from regard.tracing.huggingface import mask_functions
from regard.tracing.huggingface.mask_functions import make_lazily
from regard.tracing.mask_reading import index_rules
from regard.tracing.mask_reading.lazy import LazyMask, describe_lazy_mask, first_query_position

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from transformers import masking_utils as hf

    from tracing import strangers

if not strangers.HAS_REGISTRIES:
    pytest.skip("transformers before 5 makes masks otherwise", allow_module_level=True)

BATCH, QUERIES = 2, 11
LEFT, RIGHT, HOLES = (torch.ones(BATCH, QUERIES, dtype=torch.bool) for _ in range(3))
LEFT[0, :4] = RIGHT[1, -3:] = HOLES[0, 5:7] = HOLES[1, 2] = False
TEXTS = torch.tensor([[0] * 5 + [1] * 6, [0] * 2 + [1] * 7 + [2] * 2])

RULES = {
    "causal": hf.causal_mask_function,
    "all": hf.bidirectional_mask_function,
    "sliding": hf.sliding_window_causal_mask_function(4),
    "sliding both ways": hf.sliding_window_bidirectional_mask_function(2),
    "packed": hf.and_masks(hf.causal_mask_function, hf.packed_sequence_mask_function(TEXTS)),
    "chunked": hf.chunked_causal_mask_function(4, torch.tensor([0, 0])),
    "chunked, padded": hf.chunked_causal_mask_function(4, torch.tensor([3, 0])),
}
SIZES = {
    "whole": {"q_length": QUERIES, "kv_length": QUERIES, "q_offset": 0, "kv_offset": 0},
    "cached": {"q_length": 4, "kv_length": QUERIES, "q_offset": 7, "kv_offset": 0},
    "cached, tensor": {
        "q_length": 4, "kv_length": QUERIES, "q_offset": torch.tensor(7), "kv_offset": 0,
    },
    "forgotten": {"q_length": 3, "kv_length": 6, "q_offset": 8, "kv_offset": 5},
    "static": {"q_length": 5, "kv_length": 17, "q_offset": torch.tensor(2), "kv_offset": 0},
    "prefill": {"q_length": QUERIES, "kv_length": 17, "q_offset": 0, "kv_offset": 0},
}  # fmt: skip


@pytest.fixture(params=["small", "large"], autouse=True)
def _size(request, monkeypatch):
    if request.param == "large":
        monkeypatch.setattr(index_rules, "MAX_PAIRS", 0)
        monkeypatch.setattr(mask_functions, "MAX_PAIRS", 0)


def asked(rule, sizes, padded):
    return {
        "batch_size": BATCH,
        **SIZES[sizes],
        "mask_function": RULES[rule],
        "attention_mask": padded,
        "allow_is_causal_skip": False,
        "dtype": torch.float32,
        "device": torch.device("cpu"),
    }


@pytest.mark.parametrize("make", [hf.sdpa_mask, hf.eager_mask], ids=["sdpa", "eager"])
@pytest.mark.parametrize("padded", [None, LEFT, RIGHT, HOLES], ids=["", "left", "right", "holes"])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("rule", ["causal", "all", "sliding", "sliding both ways"])
def test_a_window_with_padding_is_described_exactly(rule, sizes, padded, make):
    question = asked(rule, sizes, padded)
    dense, mask = make(**question), make_lazily(make, question)
    assert isinstance(mask, LazyMask)
    assert (mask.shape, mask.dtype) == (dense.shape, dense.dtype)
    assert torch.equal(mask.dense(), dense)
    said = describe_lazy_mask(mask, BATCH).dense(
        *dense.shape[2:], offset=first_query_position(mask, 0)
    )
    seen = dense if dense.dtype == torch.bool else dense == 0
    assert torch.equal(said.expand_as(seen), seen)


@pytest.mark.parametrize("rule", ["packed", "chunked", "chunked, padded"])
def test_texts_that_are_packed_or_cut_are_described_as_segments(rule):
    question = asked(rule, "whole", None)
    mask = make_lazily(hf.sdpa_mask, question)
    dense = hf.sdpa_mask(**question)
    assert "segments" in repr(describe_lazy_mask(mask, BATCH))
    assert torch.equal(describe_lazy_mask(mask, BATCH).dense(QUERIES, QUERIES), dense)


def test_a_mask_without_a_description_is_made_dense():
    prefix = hf.or_masks(hf.causal_mask_function, lambda b, h, q, k: k < 3)
    question = asked("causal", "whole", None) | {"mask_function": prefix}
    for vmap in (False, True):
        mask = make_lazily(hf.sdpa_mask, question | {"use_vmap": vmap})
        assert type(mask) is torch.Tensor
        assert torch.equal(mask, hf.sdpa_mask(**question))


def test_where_no_mask_is_needed_there_is_none():
    question = asked("causal", "whole", None) | {"allow_is_causal_skip": True}
    assert make_lazily(hf.sdpa_mask, question) is None


def test_one_row_is_made_as_it_is():
    question = asked("causal", "whole", LEFT) | {"q_length": 1, "q_offset": QUERIES - 1}
    assert type(make_lazily(hf.sdpa_mask, question)) is torch.Tensor


def test_padding_and_a_place_that_change_later_do_not_change_the_mask():
    padded, place = LEFT.clone(), torch.tensor(7)
    question = asked("sliding", "cached", padded) | {"q_offset": place}
    dense, mask = hf.sdpa_mask(**question), make_lazily(hf.sdpa_mask, question)
    padded.fill_(True)
    place.add_(2)
    assert torch.equal(mask.dense(), dense)
