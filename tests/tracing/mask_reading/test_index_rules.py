"""Rules on indices, read: exactly, and what is unlike a window is not taken for one."""

import pytest
import torch

from regard.masks import causal, padding, segments, window
from regard.tracing.mask_reading import index_rules
from regard.tracing.mask_reading.index_rules import MaskFacts, MaskSizes, read_index_rule

BATCH, HEADS, LENGTH = 2, 3, 41
SIZES = MaskSizes(BATCH, HEADS, LENGTH, LENGTH)
CPU = torch.device("cpu")
REAL = torch.ones(BATCH, LENGTH, dtype=torch.bool)
REAL[0, :5] = REAL[1, -7:] = False
TEXTS = (torch.arange(LENGTH)[None] // torch.tensor([[11], [17]])).long()

RULES = {
    "everything()": lambda b, h, q, k: k >= 0,
    "causal()": lambda b, h, q, k: k <= q,
    "window(3, 0)": lambda b, h, q, k: (k <= q) & (k > q - 4),
    "window(2, 5)": lambda b, h, q, k: (k <= q + 5) & (k >= q - 2),
    "padded": lambda b, h, q, k: REAL[b, k],
    "causal, padded": lambda b, h, q, k: (k <= q) & REAL[b, k],
    "sliding, padded": lambda b, h, q, k: (k <= q) & (k > q - 4) & REAL[b, k],
    "texts": lambda b, h, q, k: TEXTS[b, k] == TEXTS[b, q],
    "causal, texts": lambda b, h, q, k: (k <= q) & (TEXTS[b, k] == TEXTS[b, q]),
}
MASKS = {
    "padded": padding(REAL),
    "causal, padded": causal() & padding(REAL),
    "sliding, padded": window(3, 0) & padding(REAL),
    "texts": segments(TEXTS),
    "causal, texts": causal() & segments(TEXTS),
}


@pytest.fixture(params=["all pairs", "some places"], autouse=True)
def _size(request, monkeypatch):
    if request.param == "some places":  # as rules are read that are too large to be asked whole
        monkeypatch.setattr(index_rules, "MAX_PAIRS", 0)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_read_as_the_shortest_mask_that_it_is(name):
    facts = read_index_rule(RULES[name], SIZES, CPU)
    assert facts is not None
    if name in MASKS:
        assert torch.equal(facts.mask.dense(LENGTH, LENGTH), MASKS[name].dense(LENGTH, LENGTH))
        assert len(repr(facts.mask).split(" & ")) == len(repr(MASKS[name]).split(" & "))
    else:
        assert repr(facts.mask) == name


def test_a_causal_rule_over_a_cache_starts_where_its_first_query_stands():
    facts = read_index_rule(lambda b, h, q, k: k <= q + 12, MaskSizes(BATCH, 1, 29, LENGTH), CPU)
    assert (repr(facts.mask), facts.offset) == ("causal()", 12)


UNLIKE = {
    "a key that nobody sees": lambda b, h, q, k: (k <= q) & ((k != 23) | (q < 23)),
    "a key that all see": lambda b, h, q, k: ((k <= q) & (k > q - 4)) | (k == 13),
    "a query that sees all": lambda b, h, q, k: (k <= q) | (q == 19),
    "a head that sees further": lambda b, h, q, k: (k <= q) & ((k > q - 4) | (h == 1)),
    "an example that sees further": lambda b, h, q, k: (k <= q) & ((k > q - 4) | (b == 1)),
    "every second key": lambda b, h, q, k: (k <= q) & ((q - k) % 2 == 0),
    "a prefix": lambda b, h, q, k: (k <= q) | (k < 7),
    "a picture that sees itself": lambda b, h, q, k: (k <= q) | ((k // 8 == 2) & (q // 8 == 2)),
    "nothing at all": lambda b, h, q, k: k < 0,
}


@pytest.mark.parametrize("name", UNLIKE)
def test_a_rule_that_is_unlike_a_window_is_not_read_as_one(name):
    rule = UNLIKE[name]
    facts = read_index_rule(rule, SIZES, CPU, offset=0, real=torch.ones_like(REAL))
    assert facts is None


def test_a_reading_of_some_rows_and_columns_is_that_of_the_whole():
    facts = read_index_rule(RULES["causal, padded"], SIZES, CPU)
    part = facts.crop(range(13, 31), range(3, 37))
    whole = facts.mask.dense(LENGTH, LENGTH)[:, :, 13:31, 3:37]
    assert torch.equal(part.mask.dense(18, 34, offset=part.offset), whole)


def test_a_reading_of_one_for_all_spreads_to_every_example():
    facts = MaskFacts(MaskSizes(1, 1, 3, 5), window(1, 1), 0, torch.ones(1, 5, dtype=torch.bool))
    facts.for_batch(7).mask.check(7, 2, 3, 5)
    assert facts.for_batch(1) is facts


def test_the_stream_of_random_numbers_is_left_alone():
    before = torch.get_rng_state()
    read_index_rule(RULES["causal()"], SIZES, CPU)
    assert torch.equal(torch.get_rng_state(), before)
