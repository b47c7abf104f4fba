"""Models that run parts of themselves in threads."""

import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.tracing.dataflow.origins import ATTRIBUTE


class Hand(nn.Module):
    def __init__(self):
        super().__init__()
        self.key = nn.Linear(8, 8)

    def forward(self, x):
        return torch.softmax(x @ self.key(x).mT, -1) @ x


class Fused(nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x)


def in_threads(*calls):
    results = {}
    threads = [
        threading.Thread(target=lambda place=place: results.update({place: calls[place]()}))
        for place in range(len(calls))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[place] for place in range(len(calls))]


def in_pool(*calls):
    with ThreadPoolExecutor(2) as pool:
        return [task.result() for task in [pool.submit(call) for call in calls]]


OLD_POOL = ThreadPoolExecutor(2)


def in_old_pool(*calls):
    return list(OLD_POOL.map(lambda call: call(), calls))


def in_threads_of_threads(*calls):
    return in_threads(lambda: in_threads(*calls))[0]


class Model(nn.Module):
    def __init__(self, run):
        super().__init__()
        self.run, self.embed = run, nn.Embedding(23, 8)
        self.hand, self.fused = Hand(), Fused()

    def forward(self, ids):
        x = self.embed(ids)
        return sum(self.run(lambda: self.hand(x), lambda: self.fused(x)))


def one_by_one(*calls):
    return [call() for call in calls]


RUNS = [in_threads, in_pool, in_old_pool, in_threads_of_threads]


@pytest.mark.parametrize("run", RUNS)
@torch.no_grad()
def test_attention_in_threads_that_the_model_uses_is_seen(run):
    model, ids = Model(run).eval(), torch.randint(23, (3, 5))
    OLD_POOL.submit(int).result()  # its workers are there before the block
    plain = model(ids)
    with regard.watch(model, beside=True) as seen:
        assert torch.equal(model(ids), plain)
    model.run = one_by_one
    with regard.watch(model) as expected:
        model(ids)
    for trace, other in zip(seen, expected, strict=True):
        assert {one.site for one in trace.maps} == {"hand", "fused"}
        for one in trace.maps:
            torch.testing.assert_close(one.weights(), other[one.site].weights())
            assert one.kind == "encoder"


@torch.no_grad()
def test_two_blocks_see_the_threads_of_one_model():
    model, ids = Model(in_threads).eval(), torch.randint(23, (3, 5))
    with regard.watch(model) as seen, regard.watch(model, sites="hand") as some:
        model(ids)
    assert {one.site for one in seen[2].maps} == {"hand", "fused"}
    assert [one.site for one in some[2].maps] == ["hand"]


@torch.no_grad()
def test_nothing_of_a_watcher_stays_in_threads_and_on_tensors():
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit
    model, ids, kept = Model(in_old_pool).eval(), torch.randint(23, (3, 5)), []
    model.fused.register_forward_hook(lambda module, args, output: kept.append(output))
    with regard.watch(model):
        model(ids)
    assert not hasattr(kept[0], ATTRIBUTE)
    assert OLD_POOL.submit(torch._C._len_torch_function_stack).result() == 0
    assert (threading.Thread.start, ThreadPoolExecutor.submit) == (start, submit)


@torch.no_grad()
def test_threads_that_the_model_did_not_start_are_not_watched():
    model, ids = Model(one_by_one).eval(), torch.randint(23, (3, 5))
    with regard.watch(model) as seen:
        in_threads(lambda: model(ids))
        model(ids)
    assert len(seen[0].maps) == 2
    assert not seen[0].gaps


@torch.no_grad()
def test_a_worker_that_was_there_before_is_a_gap():
    tasks, results = queue.Queue(), queue.Queue()
    work = lambda: [results.put(call()) for call in iter(tasks.get, None)]  # noqa: E731
    worker = threading.Thread(target=work)
    worker.start()

    def by_worker(hand, fused):
        tasks.put(hand)
        return [results.get(), fused()]

    model, ids = Model(by_worker).eval(), torch.randint(23, (3, 5))
    with regard.watch(model) as seen:
        model(ids)
    tasks.put(None)
    assert [one.site for one in seen[0].maps] == ["fused"]
    assert [(gap.site, "thread" in gap.reason) for gap in seen[0].gaps] == [("hand", True)]


@torch.no_grad()
def test_a_thread_that_outlives_the_block_is_a_gap():
    ready = threading.Event()
    started = []

    def start_late(hand, fused):
        late = threading.Thread(target=lambda: (ready.wait(), hand()))
        late.start()
        started.append(late)
        return [fused()]

    model, ids = Model(start_late).eval(), torch.randint(23, (3, 5))
    with regard.watch(model) as seen:
        model(ids)
    ready.set()
    started[0].join()
    assert "still running" in seen[0].gaps[0].reason
