import os
import signal
import threading
import time

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.kernels.observe import ObserveOptions, Scoring
from regard.kernels.observe import native as front
from regard.kernels.observe.call import Call
from regard.kernels.observe.choice import Implementation
from regard.masks import alibi, causal, lengths

from .cases import a_call
from .laws import EVERYTHING, assert_tells_the_truth

shared = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@given(seed=st.integers(0, 10**9))
@shared
def test_native_numbers_are_those_of_the_whole_map(native: Implementation, seed: int) -> None:
    call = a_call(seed)
    assert_tells_the_truth(call, native.observe(call, EVERYTHING))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@given(seed=st.integers(0, 10**9))
@settings(shared, max_examples=30)
def test_half_precision_is_summed_in_single(
    native: Implementation, dtype: torch.dtype, seed: int
) -> None:
    call = a_call(seed, dtype)
    seen = native.observe(call, EVERYTHING)
    assert seen.context.dtype == dtype
    assert seen.lse.dtype == torch.float32
    assert_tells_the_truth(call, seen)


def long_call(queries: int, keys: int, **terms: object) -> Call:
    torch.manual_seed(0)
    query = torch.randn(1, 2, queries, 8)
    key, value = torch.randn(1, 1, keys, 8), torch.randn(1, 1, keys, 11)
    return Call(query, key, value, Scoring(**terms))


@pytest.mark.parametrize("side", [1, 3, 16, 64])
def test_cells_may_be_wider_than_a_block_of_keys(native: Implementation, side: int) -> None:
    call = long_call(389, 1031, mask=causal(), offset=642)
    assert_tells_the_truth(call, native.observe(call, ObserveOptions(top=5, atlas=side)))


def test_slabs_of_a_bias_give_what_the_whole_gives(
    native: Implementation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "SLAB_NUMBERS", 1)
    call = long_call(211, 307, bias=alibi(2), mask=causal())
    assert_tells_the_truth(call, native.observe(call, EVERYTHING))


def test_padding_is_never_made_dense(
    native: Implementation, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = long_call(211, 307, mask=lengths([101]) & causal())
    [(rows, [term])] = front._slabs(call, range(211), 48)
    assert (rows, term.shape) == (range(211), (1, 1, 1, 307))
    assert_tells_the_truth(call, native.observe(call, EVERYTHING))


def test_a_slice_that_runs_out_of_time_is_taken_up_again(
    native: Implementation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "SLICE_SECONDS", 1e-7)
    call = long_call(211, 307, mask=causal())
    assert_tells_the_truth(call, native.observe(call, EVERYTHING))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads_gives_the_same_bits(native: Implementation, threads: int) -> None:
    call, before = long_call(211, 307), torch.get_num_threads()
    once = native.observe(call, EVERYTHING)
    try:
        torch.set_num_threads(threads)
        again = native.observe(call, EVERYTHING)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(once.context, again.context)
    assert torch.equal(once.atlas.mean, again.atlas.mean)


def test_several_python_threads_may_observe_at_once(native: Implementation) -> None:
    calls = [a_call(seed) for seed in range(12)]
    seen: dict[int, object] = {}

    def work(one: int) -> None:
        for seed in range(one, 12, 3):
            seen[seed] = native.observe(calls[seed], EVERYTHING)

    workers = [threading.Thread(target=work, args=(one,)) for one in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for seed, call in enumerate(calls):
        assert_tells_the_truth(call, seen[seed])


def test_an_interrupt_is_heard_before_a_long_call_ends(native: Implementation) -> None:
    query = torch.randn(1, 64, 16384, 64)
    call = Call(query, query, query, Scoring())
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    start = time.perf_counter()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        native.observe(call, ObserveOptions())
    assert time.perf_counter() - start < 5
