"""Short calls run as the model runs them, and are measured when somebody reads them."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard.kernels.observe import ObserveOptions, observe
from regard.tracing.assembly.token_labels import BlockInfo
from regard.tracing.assembly.traces import assemble
from regard.tracing.open_watchers import watching
from regard.tracing.recording import observe_call, pending
from regard.tracing.recording.kept_sides import KeptSides
from regard.tracing.recording.options import WatchOptions


class Attending(nn.Module):
    """Attention of embedded tokens to themselves; `after` changes queries or keys in place."""

    def __init__(self, in_place: str = "") -> None:
        super().__init__()
        self.embed = nn.Embedding(31, 24)
        self.in_place = in_place

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids).unflatten(-1, (3, 8)).transpose(1, 2)
        key = torch.empty_like(x).copy_(x) if self.in_place else x
        context = F.scaled_dot_product_attention(x, key, x)
        if self.in_place:
            key.zero_()
        return context


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of queries of the calls that the kernel measures."""
    calls = list[int]()
    run = pending.observe_scoring

    def count(call, options):
        calls.append(call.query.shape[2])
        return run(call, options)

    monkeypatch.setattr(pending, "observe_scoring", count)
    return calls


def test_a_short_call_is_measured_once_and_only_when_it_is_read(measured: list[int]) -> None:
    model, ids = Attending(), torch.randint(31, (2, 7))
    with torch.no_grad(), watching(model, WatchOptions(ObserveOptions())) as watcher:
        model(ids)
    (record,) = watcher.runs.runs[0]
    assert not measured
    assert record.observation is record.observation
    assert measured == [7]
    traces = assemble(watcher.runs.runs, "windows", BlockInfo())
    with torch.no_grad():
        x = model.embed(ids).unflatten(-1, (3, 8)).transpose(1, 2)
        expected = observe(x, x, x, keep=ObserveOptions())
    for number, trace in enumerate(traces):
        statistics = trace.maps[0].statistics
        assert statistics is not None
        assert torch.equal(statistics.entropy, expected.statistics.entropy[number])
        weights = (x[number] @ x[number].mT / 8**0.5).softmax(-1)
        torch.testing.assert_close(trace.maps[0].weights(), weights)


def test_the_output_of_a_short_call_is_torchs_own_and_so_is_its_gradient() -> None:
    model, ids = Attending(), torch.randint(31, (2, 7))
    plain = model(ids)
    (expected,) = torch.autograd.grad(plain.square().sum(), model.embed.weight)
    with regard.watch(model):
        output = model(ids)
    (gradient,) = torch.autograd.grad(output.square().sum(), model.embed.weight)
    assert torch.equal(output, plain)
    assert torch.equal(gradient, expected)


def test_a_long_call_is_measured_while_it_runs(
    measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observe_call, "MOST_SCORES", 3 * 7 * 7 - 1)
    model = Attending()
    with torch.no_grad(), regard.watch(model) as seen:
        model(torch.randint(31, (1, 7)))
    assert len(seen[0].maps) == 1
    assert not measured


@pytest.mark.parametrize("inference", [False, True])
def test_buffers_that_are_overwritten_before_they_are_read_are_copied(inference: bool) -> None:
    model, ids = Attending(in_place="key"), torch.randint(31, (1, 7))
    with torch.inference_mode(inference), torch.no_grad():
        with regard.watch(model) as seen:
            model(ids)
        x = model.embed(ids).unflatten(-1, (3, 8)).transpose(1, 2)
        shown = seen[0].maps[0]
        torch.testing.assert_close(shown.weights(), (x[0] @ x[0].mT / 8**0.5).softmax(-1))
        assert shown.row_statistics.entropy.max() < 1.9458  # zero keys would give log 7


def test_a_trace_that_is_read_inside_another_block_is_no_attention_of_that_block() -> None:
    model, ids = Attending().double(), torch.randint(31, (1, 7))  # the portable kernel
    with torch.no_grad(), regard.watch(model) as first:
        model(ids)
    with torch.no_grad(), regard.watch(model) as second:
        model(ids)
        assert len(first[0].maps) == 1
    assert len(second[0].maps) == 1


def test_a_summary_keeps_neither_queries_nor_keys_so_it_is_measured_at_once(
    measured: list[int],
) -> None:
    model = Attending()
    with torch.no_grad(), regard.watch(model, keep="summary") as seen:
        model(torch.randint(31, (1, 7)))
    assert seen[0].maps[0].statistics is not None
    assert not measured


WRITES = {
    "x += y": lambda x, y: x.__iadd__(y),
    "x *= 3": lambda x, y: x.mul_(3),
    "x[...] = 0": lambda x, y: x.__setitem__((slice(None), 2), 0.0),
    "out=": lambda x, y: torch.add(x, y, out=x),
    "inplace=True": lambda x, y: F.relu(x, inplace=True),
    "relu(x, True)": lambda x, y: F.relu(x, True),
}


@pytest.mark.parametrize("size", [0, pending.MOST_SCORES])
@pytest.mark.parametrize("write", WRITES)
def test_a_map_shows_what_was_attended_to_although_the_model_writes_to_it_later(
    write: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Writing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(31, 24)

        def forward(self, ids: Tensor) -> Tensor:
            x = self.embed(ids)
            y = F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None])[:, 0]
            WRITES[write](x, y)
            return x

    monkeypatch.setattr(observe_call, "MOST_SCORES", size)
    model, ids = Writing(), torch.randint(31, (2, 7))
    with torch.no_grad(), regard.watch(model) as seen, regard.watch(model) as other:
        output = model(ids)
    with torch.no_grad():
        torch.testing.assert_close(output, model(ids))
        x = model.embed(ids)
    weights = (x @ x.mT / 24**0.5).softmax(-1)
    for number in range(2):
        for trace in (seen[number], other[number]):
            torch.testing.assert_close(trace.maps[0].weights(0), weights[number])
            largest = trace.maps[0].row_statistics.largest[0]
            torch.testing.assert_close(largest, weights[number].amax(-1))


def test_learned_queries_are_copied_because_training_writes_to_them() -> None:
    class Pooling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(31, 24)
            self.query = nn.Parameter(torch.randn(1, 1, 3, 24))

        def forward(self, ids: Tensor) -> Tensor:
            keys = self.embed(ids)[:, None]
            return F.scaled_dot_product_attention(
                self.query.expand(len(ids), -1, -1, -1), keys, keys
            )

    model, ids = Pooling(), torch.randint(31, (2, 7))
    with torch.no_grad():
        keys = model.embed(ids)
        weights = (model.query[0, 0] @ keys.mT / 24**0.5).softmax(-1)
    with regard.watch(model) as seen:
        model(ids).square().sum().backward()
    with torch.no_grad():
        model.query.add_(1.0)
    torch.testing.assert_close(seen[0].maps[0].weights(0), weights[0])


def test_tensors_without_memory_of_their_own_may_be_written_to() -> None:
    side, sides = torch.randn(1, 1, 3, 4), KeptSides()
    sides.add(side, side)
    sides.save((torch.eye(3).to_sparse(),), {})
    sides.save((torch.eye(3, device="meta"),), {"out": side})
    assert side.shape == (1, 1, 3, 4)


def test_weights_that_are_overwritten_after_their_product_are_kept() -> None:
    class ByHand(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(31, 24)

        def forward(self, ids: Tensor) -> Tensor:
            x = self.embed(ids)
            weights = (x @ x.mT / 24**0.5).softmax(-1)
            context = weights @ x
            weights.zero_()
            return context

    model, ids = ByHand(), torch.randint(31, (2, 7))
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids)
        x = model.embed(ids)
    weights = (x @ x.mT / 24**0.5).softmax(-1)
    torch.testing.assert_close(seen[1].maps[0].weights(0), weights[1])
