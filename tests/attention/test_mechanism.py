import pytest
import torch
from torch.overrides import TorchFunctionMode

import regard
from regard.attention import (
    AdaptiveEntmax,
    AdditiveScore,
    CosineScore,
    DotScore,
    Entmax,
    GeneralScore,
    Hard,
    Mechanism,
    PredictiveLocal,
    RelativePositions,
    Sparsemax,
    StraightThrough,
    TopK,
    mechanism,
)
from regard.errors import InputError, NotFiniteError, ShapeError
from regard.masks import alibi, causal, lengths, tensor_bias, window


def sides(*lead, queries=5, keys=7, dim=11, value_dim=13):
    sizes = ((*lead, queries, dim), (*lead, keys, dim), (*lead, keys, value_dim))
    return [torch.randn(size) for size in sizes]


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)], ids=str)
def test_the_context_has_the_axes_of_the_query(lead):
    query, key, value = sides(*lead)
    assert regard.attend(query, key, value).shape == (*lead, 5, 13)
    assert regard.weights(query, key).shape == (*lead, 5, 7)


def test_a_batch_is_its_examples_side_by_side():
    query, key, value = sides(2)
    together = regard.attend(query, key, value, mask=causal())
    alone = [regard.attend(query[b], key[b], value[b], mask=causal()) for b in range(2)]
    torch.testing.assert_close(together, torch.stack(alone))


class Watcher(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


@pytest.mark.usefixtures("unchecked")
def test_a_watcher_sees_the_call_itself_with_its_whole_description():
    query, key, value = sides(2)
    local, bias = Mechanism(mask=window(3, 0)), tensor_bias(torch.randn(5, 7))
    with Watcher() as watcher:
        context = regard.attend(query, key, value, local, causal(), bias=bias, offset=2)
    func, args, kwargs = watcher.calls[0]
    assert func is regard.attend
    assert args[3:] == (local, causal())
    assert kwargs == {"bias": bias, "offset": 2}
    assert all(one is other for one, other in zip(args[:3], (query, key, value), strict=True))
    assert torch.equal(context, regard.attend(*args, **kwargs))
    assert [call[0] for call in watcher.calls].count(regard.attend) == 1


def test_the_mask_of_a_call_is_joined_to_the_mechanism_s_own():
    query, key, value = sides(2)
    own = regard.attend(query, key, value, Mechanism(mask=causal()), lengths([2, 7]))
    assert torch.equal(own, regard.attend(query, key, value, mask=causal() & lengths([2, 7])))


def test_the_bias_of_a_call_is_added_to_the_mechanism_s_own():
    query, key, value = sides(2, 3)
    numbers = tensor_bias(torch.randn(5, 7))
    own = regard.attend(query, key, value, Mechanism(bias=alibi(3)), bias=numbers)
    both = regard.attend(query, key, value, Mechanism(bias=alibi(3) + numbers))
    torch.testing.assert_close(own, both)


def test_a_later_offset_is_a_later_row_of_the_whole():
    query, key, value = sides(2, queries=7)
    for piece in (
        Mechanism(mask=causal()),
        Mechanism(mask=window(2, 1)),
        Mechanism(normalizer=TopK(3), mask=causal()),
    ):
        whole = regard.attend(query, key, value, piece)
        late = regard.attend(query[:, 4:], key, value, piece, offset=4)
        torch.testing.assert_close(late, whole[:, 4:])


def test_long_inputs_are_cut_into_blocks_of_rows(monkeypatch):
    query, key, value = sides(2, 3, queries=31)
    piece = Mechanism(normalizer=Sparsemax(), mask=causal())
    whole = regard.attend(query, key, value, piece)
    monkeypatch.setattr(mechanism, "_SCORES", 100)
    torch.testing.assert_close(regard.attend(query, key, value, piece), whole)


@pytest.mark.parametrize(
    "build",
    [
        lambda mask: Mechanism(DotScore(), Sparsemax(), mask=mask),
        lambda mask: Mechanism(AdditiveScore(7, 7, 5), mask=mask),
        lambda mask: PredictiveLocal(7, radius=3, mask=mask),
    ],
    ids=["sparsemax", "additive", "local-p"],
)
@pytest.mark.parametrize(
    "mask", [causal(), window(3, 2), window(2, 0) & lengths([23, 11])], ids=str
)
def test_a_block_of_rows_meets_only_the_keys_that_its_window_reaches(monkeypatch, build, mask):
    x, chosen = torch.randn(2, 3, 23, 7), build(mask).eval()
    whole = regard.attend(x, x, x, chosen)
    monkeypatch.setattr(mechanism, "_SCORES", 2 * 3 * 23 * 5)
    monkeypatch.setattr(mechanism, "_LEAST_ROWS", 5)
    met = []
    own = chosen.score.forward
    monkeypatch.setattr(chosen.score, "forward", lambda q, k: met.append(k.shape[2]) or own(q, k))
    torch.testing.assert_close(regard.attend(x, x, x, chosen), whole)
    assert len(met) > 3
    assert sum(met) < 23 * len(met)


def test_dropout_reaches_mechanisms_without_a_fused_form():
    query, key, value = sides(2)
    piece = Mechanism(normalizer=Sparsemax(), dropout=0.9).train()
    assert not torch.allclose(
        regard.attend(query, key, value, piece), regard.attend(query, key, value, piece.eval())
    )


def test_a_mechanism_prints_its_pieces():
    text = repr(Mechanism(mask=window(3, 0), bias=alibi(2), dropout=0.1))
    assert "mask=window(3, 0), bias=alibi(2), dropout=0.1" in text
    pieces = [CosineScore(0.5), GeneralScore(2, 3), AdditiveScore(2, 3, 5), TopK(4), Entmax(1.2)]
    assert [each.extra_repr() for each in pieces] == [
        "temperature=0.5",
        "query_dim=2, key_dim=3",
        "query_dim=2, key_dim=3, hidden=5",
        "k=4",
        "alpha=1.2",
    ]
    assert AdaptiveEntmax(7).extra_repr() == "heads=7"
    assert StraightThrough(0.5).extra_repr() == "temperature=0.5"


def test_it_works_inside_the_transforms_of_torch():
    query, key, value = sides(3)
    piece = Mechanism(normalizer=TopK(3))
    mapped = torch.func.vmap(lambda q, k, v: regard.attend(q, k, v, piece))
    torch.testing.assert_close(mapped(query, key, value), regard.attend(query, key, value, piece))


@pytest.mark.parametrize("place", [0, 1, 2], ids=["query", "key", "value"])
def test_nan_in_an_input_is_named_with_its_place(place):
    inputs = sides(2)
    inputs[place][1, 3, 4] = torch.nan
    name = ("query", "key", "value")[place]
    with pytest.raises(
        NotFiniteError, match=rf"{name} should hold finite.*batch 1, head 0, position 3, dim 4"
    ):
        regard.attend(*inputs)


def test_scores_that_overflow_are_told_from_bad_inputs():
    query, key, _ = (side * 1e30 for side in sides(2))
    with pytest.raises(NotFiniteError, match=r"yet the result is not.*too large for torch.float32"):
        regard.weights(query, key)


def test_nan_is_named_by_weights_and_choose_too():
    query, key, value = sides(2)
    key[0, 0, 0] = torch.inf
    with pytest.raises(NotFiniteError, match="key should hold finite numbers, got inf"):
        regard.weights(query, key)
    with pytest.raises(NotFiniteError, match="key should hold finite numbers"):
        regard.choose(query, key, value, Mechanism(normalizer=Hard()).eval())


def shaped(*sizes):
    return [torch.zeros(size) for size in sizes]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        (
            shaped((3,), (2, 3), (2, 3)),
            ShapeError,
            r"query should have the axes .* got 1 of them: \(3,\)",
        ),
        (shaped((2, 3), (0, 3), (0, 3)), InputError, r"key is empty, its shape is \(0, 3\)"),
        (shaped((0, 3), (2, 3), (2, 3)), InputError, r"query is empty"),
        (
            shaped((2, 2, 3), (2, 3), (2, 3)),
            ShapeError,
            r"should have as many axes, got query \(2, 2, 3\)",
        ),
        (shaped((2, 2, 3), (3, 2, 3), (3, 2, 3)), ShapeError, r"should have one batch size"),
        (shaped((2, 3), (2, 3), (5, 3)), ShapeError, r"there should be a value for each key"),
        (
            shaped((1, 3, 2, 5), (1, 2, 2, 5), (1, 2, 2, 5)),
            ShapeError,
            r"the 3 heads of the query .* 2 heads",
        ),
        (
            shaped((2, 3), (2, 5), (2, 5)),
            ShapeError,
            r"ScaledDotScore expected .* one width, got 3 and 5; General",
        ),
        (
            [torch.zeros(2, 3), torch.zeros(2, 3).double(), torch.zeros(2, 3)],
            InputError,
            r"share one floating-point type",
        ),
        ([torch.zeros(2, 3).long()] * 3, InputError, r"floating-point type, got query torch.int64"),
    ],
)
def test_inputs_that_do_not_fit_get_their_sentence(inputs, error, message):
    with pytest.raises(error, match=message):
        regard.attend(*inputs)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mechanism(dropout=1.0), "dropout from 0 to below 1, got 1.0"),
        (lambda: Mechanism(normalizer=Hard(), dropout=0.1), "build it with dropout=0"),
        (lambda: CosineScore(0.0), "temperature above zero, got 0.0"),
        (lambda: StraightThrough(-1.0), "temperature above zero, got -1.0"),
        (lambda: TopK(0), "at least one key, got 0"),
        (lambda: Entmax(0.5), r"alpha from 1 \(softmax\) to 2 \(sparsemax\), got 0.5"),
        (lambda: AdaptiveEntmax(0), "at least one head, got 0"),
        (lambda: RelativePositions(0), "at least one head, got 0"),
        (
            lambda: regard.choose(*sides(2), Mechanism()),
            "normalizer Hard or StraightThrough, got Softmax; use attend",
        ),
        (
            lambda: regard.attend(*sides(2), Mechanism(GeneralScore(3, 11))),
            "queries of width 3 and keys of width 11, got 11",
        ),
        (
            lambda: regard.attend(*sides(2), Mechanism(AdditiveScore(11, 3))),
            "queries of width 11 and keys of width 3, got 11",
        ),
        (
            lambda: regard.attend(*sides(2), Mechanism(normalizer=AdaptiveEntmax(5))),
            "build it with heads=1",
        ),
        (lambda: regard.attend(*sides(2), mask=lengths([1, 2, 3])), "lengths should have shape"),
        (lambda: regard.attend(*sides(2), bias=alibi(5)), "ALiBi should broadcast"),
    ],
)
def test_pieces_that_do_not_fit_get_their_sentence(make, message):
    with pytest.raises(InputError, match=message):
        make()
