import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.kernels.observe import portable

from .cases import a_call
from .laws import EVERYTHING, assert_tells_the_truth


@given(seed=st.integers(0, 10**9))
@settings(max_examples=150, deadline=None)
def test_portable_numbers_are_those_of_the_whole_map(seed: int) -> None:
    call = a_call(seed, torch.float64)
    assert_tells_the_truth(call, portable.observe(call, EVERYTHING), 1e-11)


@given(seed=st.integers(0, 10**9))
@settings(max_examples=50, deadline=None)
def test_portable_numbers_hold_in_single_precision(seed: int) -> None:
    call = a_call(seed)
    assert_tells_the_truth(call, portable.observe(call, EVERYTHING))
