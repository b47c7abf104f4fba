import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.tracing.assembly.decoding_runs import DecodingRuns, equal_rows, near_rows
from regard.tracing.recording.manual_softmax import add_values_as_keys
from regard.tracing.recording.record import CallRecord
from tracing.decoders import Decoder, Growing, Pair, Static, step_by_step

pytestmark = pytest.mark.usefixtures("unchecked")

BATCH, HEADS, LENGTH, DIM = 3, 2, 7, 5


def test_rows_are_the_same_bit_for_bit_or_not_at_all():
    other = torch.randn(BATCH, HEADS, DIM)
    one = torch.stack([other[2], other[0] + 1e-7, other[0], other[2]])
    expected = [[0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 0, 1]]
    assert equal_rows(one, other).int().tolist() == expected


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_rows_of_any_precision_are_compared(dtype):
    one = torch.randn(BATCH, HEADS, DIM).to(dtype)
    assert torch.equal(equal_rows(one, one), torch.eye(BATCH).bool())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_rows_that_were_made_anew_are_near(dtype):
    one = torch.randn(BATCH, HEADS, DIM)
    other = one * (1 + torch.finfo(dtype).eps)
    assert torch.equal(near_rows(one.to(dtype), other.to(dtype)), torch.eye(BATCH).bool())


class Anew(Growing):
    """A cache of something shorter, from which keys are made anew in every step."""

    def extend(self, *new):
        return [each + torch.rand_like(each) * 1e-7 for each in super().extend(*new)]


@torch.no_grad()
def test_keys_that_are_made_anew_in_every_step_go_on():
    model, ids = Decoder().eval(), torch.randint(31, (BATCH, LENGTH))
    with regard.watch(model) as anew:
        final = step_by_step(model, ids, {5: [2, 0, 0]}, [Anew() for _ in model.layers])
    with regard.watch(model) as whole:
        model(final)
    for one, other in zip(anew, whole, strict=True):
        for each, twin in zip(one, other, strict=True):
            torch.testing.assert_close(each.weights(), twin.weights(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("steps", [[LENGTH], [3, 1, 1, 1, 1]])
def test_what_was_seen_stays_when_the_model_writes_over_its_buffers(mode, steps):
    model, ids = Decoder().eval(), torch.randint(31, (BATCH, LENGTH))
    caches = [Static() for _ in model.layers]
    with mode():
        with regard.watch(model) as seen:
            for piece in ids.split(steps, dim=1):
                model(piece, caches, caches[0].mask(piece.shape[1]))
        before = [each.weights() for each in seen[1]]
        for cache in caches:
            cache.held[0].normal_()
        for each, weights in zip(seen[1], before, strict=True):
            assert torch.equal(each.weights(), weights)


@torch.no_grad()
def test_each_key_of_a_cache_is_kept_once():
    model, ids = Decoder(layers=1).eval(), torch.randint(31, (BATCH, 19))
    with regard.watch(model) as seen:
        step_by_step(model, ids, caches=[Static()])
    key = seen[0].maps[0].source.key
    assert key.shape[1] == 19
    assert key.untyped_storage().nbytes() == BATCH * 19 * 12 * 4


def call(queries, keys, batch=BATCH, **parts):
    weights = torch.rand(batch, HEADS, queries, keys)
    nothing = torch.empty(batch, HEADS, 0, 0)
    streams = parts.pop("streams", ("text", "text"))
    return CallRecord("h", *streams, nothing, nothing, weights=weights, key_count=keys, **parts)


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ([(5, 5), (1, 6), (1, 7)], 1),  # a cache that grows
        ([(5, 5), (1, 4), (1, 4)], 1),  # one that slides
        ([(5, 5), (2, 7)], 1),
        ([(5, 5), (5, 5)], 2),
        ([(5, 5), (1, 1)], 2),
        ([(5, 5), (1, 8)], 2),
    ],
)
def test_attention_by_hand_goes_on_where_its_sizes_do(sizes, count):
    runs = DecodingRuns()
    for queries, keys in sizes:
        runs.add(call(queries, keys))
    assert len(runs.runs) == count


def test_attention_by_hand_does_not_go_on_when_nobody_knows_who_left():
    runs = DecodingRuns()
    runs.add(call(5, 5))
    runs.add(call(1, 6, batch=2))
    assert len(runs.runs) == 2


@pytest.mark.parametrize("folded", [False, True])
def test_values_tell_which_row_attention_by_hand_goes_on_with(folded):
    values, runs = torch.randn(BATCH, HEADS, 6, DIM), DecodingRuns()
    for queries, keys, rows in ((5, 5, [0, 1, 2]), (1, 6, [2, 0, 0])):
        own = values[rows, :, :keys]
        runs.add(add_values_as_keys(call(queries, keys), own.flatten(0, 1) if folded else own, -2))
    assert len(runs.runs) == 1
    assert runs.runs[0][1].row_matches.int().tolist() == [[0, 0, 1], [1, 0, 0], [1, 0, 0]]
    assert runs.runs[0][1].key.shape[2] == 1


@pytest.mark.parametrize("shape", [(6, DIM), (5, 6, DIM), (BATCH, HEADS, 5, DIM)])
def test_values_that_do_not_fit_tell_nothing(shape):
    one = call(1, 6)
    assert add_values_as_keys(one, torch.rand(shape), -2) is one


def test_what_a_static_cache_has_not_written_is_cut_from_attention_by_hand():
    mask = regard.masks.padding(torch.arange(11)[None] < 6)
    runs = DecodingRuns()
    runs.add(call(5, 5))
    runs.add(call(1, 11, mask=mask))
    assert runs.runs[0][1].weights.shape == (BATCH, HEADS, 1, 6)
    assert runs.runs[0][1].keys_seen == 6


@torch.no_grad()
def test_a_second_pass_is_not_a_step_of_the_first():
    source, target = torch.randint(31, (2, LENGTH)), torch.randint(31, (2, 5))
    with regard.watch(model := Pair()) as seen:
        model(source, target)
        model(source, target)
    assert [each.shape[1] for each in seen[0]] == [5, 5, 5, 5]


@torch.no_grad()
def test_a_module_may_look_at_itself_and_at_another_in_turn():
    source, target = torch.randint(31, (2, LENGTH)), torch.randint(31, (2, 5))
    with regard.watch(model := Pair()) as seen:
        source, target = model.encoder(source), model.decoder(target)
        model.step(source, target[:, :, :3])
        for n in (3, 4):
            model.step(source, target[:, :, n : n + 1], target[:, :, :n])
    own, cross = seen[0]
    assert (own.shape, cross.shape) == ((1, 5, 5), (1, 5, LENGTH))


@torch.no_grad()
def test_a_loop_without_self_attention_goes_on_while_its_keys_are_the_same():
    first, second = torch.randn(2, 1, LENGTH, DIM), torch.randn(2, 1, LENGTH, DIM)
    with regard.watch(nn.Identity()) as seen:
        for keys in (first, first, second):
            F.scaled_dot_product_attention(torch.randn(2, 1, 1, DIM), keys, keys)
    assert [each.shape[1] for each in seen[0]] == [2, 1]


@torch.no_grad()
def test_a_cache_that_was_filled_before_is_seen_with_its_late_rows():
    model, ids = Decoder().eval(), torch.randint(31, (BATCH, LENGTH))
    caches = [Growing() for _ in model.layers]
    model(ids[:, :4], caches)
    with regard.watch(model) as seen:
        for n in (4, 5, 6):
            model(ids[:, n : n + 1], caches)
    each = seen[0].maps[0]
    assert each.shape == (3, 3, LENGTH)
    assert each.rows.positions == (4, 5, 6)


@torch.no_grad()
def test_keys_from_nobody_knows_where_are_known_again():
    keys = torch.randn(BATCH, HEADS, LENGTH, DIM)
    queries = torch.randn(BATCH, HEADS, LENGTH, DIM)
    with regard.watch(nn.Identity()) as seen:
        F.scaled_dot_product_attention(queries[:, :, :5], *[keys[:, :, :5]] * 2, is_causal=True)
        for n in (6, 7):
            F.scaled_dot_product_attention(queries[:, :, n - 1 : n], *[keys[:, :, :n]] * 2)
    (only,) = seen[1]
    assert only.kind == "decoder"
    assert only.shape == (HEADS, LENGTH, LENGTH)


class Chunks(nn.Module):
    """Self-attention whose queries come in chunks, as code that saves memory has them."""

    def __init__(self, by_hand, causal):
        super().__init__()
        self.embedding, self.by_hand = nn.Embedding(31, DIM), by_hand
        visible = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
        self.mask = visible.tril() if causal else visible

    def forward(self, ids):
        x = self.embedding(ids)
        chunks = zip(x.split(3, 1), self.mask.split(3), strict=True)
        return torch.cat([self.attend(chunk, x, mask) for chunk, mask in chunks], 1)

    def attend(self, query, key, mask):
        if not self.by_hand:
            return F.scaled_dot_product_attention(query, key, key, None if mask.all() else mask)
        scores = (query @ key.mT / DIM**0.5).masked_fill(~mask, -torch.inf)
        return scores.softmax(-1) @ key


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_queries_that_come_in_chunks_are_the_rows_of_one_map(by_hand, causal):
    model, ids = Chunks(by_hand, causal), torch.randint(31, (BATCH, LENGTH))
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids)
    x = model.embedding(ids).detach()
    expected = (x @ x.mT / DIM**0.5).masked_fill(~model.mask, -torch.inf).softmax(-1)
    for number, trace in enumerate(seen):
        (shown,) = trace.maps
        assert shown.kind == ("decoder" if causal else "encoder")
        torch.testing.assert_close(shown.weights(0), expected[number])


@pytest.mark.parametrize(("prompt_heads", "step_heads"), [(4, 2), (2, 4)])
def test_a_step_goes_on_whether_its_heads_of_keys_are_repeated_or_not(prompt_heads, step_heads):
    keys, queries = torch.randn(BATCH, 2, LENGTH, DIM), torch.randn(BATCH, 4, LENGTH, DIM)
    repeated = {2: keys, 4: keys.repeat_interleave(2, dim=1)}
    with regard.watch(nn.Identity()) as seen:
        first = repeated[prompt_heads][:, :, :-1]
        attend = {"enable_gqa": True}
        F.scaled_dot_product_attention(queries[:, :, :-1], first, first, is_causal=True, **attend)
        whole = repeated[step_heads]
        F.scaled_dot_product_attention(queries[:, :, -1:], whole, whole, **attend)
    scores = queries @ repeated[4].mT / DIM**0.5
    hidden = torch.ones(LENGTH, LENGTH).triu(1).bool()
    expected = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    for trace, weights in zip(seen, expected, strict=True):
        (only,) = trace.maps
        torch.testing.assert_close(only.weights(), weights)
