import pytest
import torch

from regard.errors import InputError
from regard.masks import padding
from regard.tracing.assembly.stacking import StackedCall
from regard.tracing.recording.record import CallRecord
from regard.tracing.statistics import streams as module
from regard.tracing.statistics.streams import find_streams_by_length, find_streams_of_stacks

LENGTH, PADDING = 5, 3
REAL = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]).bool()
KINDS = torch.tensor([[0, 1, 2, 3, 3], [0, 0, 0, 0, 3]])


def stack(streams=("x", "x"), lengths=(LENGTH, LENGTH), real=REAL):
    queries, keys = (torch.zeros(2, 7, length, 1) for length in lengths)
    mask = None if real is None else padding(real)
    call = CallRecord("here", *streams, queries, keys, mask=mask, key_count=lengths[1])
    return StackedCall(call, [0, 1], [lengths[0]] * 2)


def test_real_tokens_are_those_of_the_masks():
    (found,) = find_streams_of_stacks([stack()], {}, PADDING).values()
    assert torch.equal(found.real, REAL)
    assert found.kinds is None


def test_what_the_caller_tells_comes_before_the_masks(monkeypatch):
    monkeypatch.setattr(module, "find_streams", None)  # which takes time
    (found,) = find_streams_of_stacks([stack()], {"tokens": KINDS}, PADDING).values()
    assert found.real.sum(dim=1).tolist() == [3, 4]
    assert found.kinds is KINDS


def test_each_side_of_a_translator_has_kinds_of_its_own():
    told = {"source": KINDS, "target": torch.zeros(2, 3).long()}
    found = find_streams_of_stacks([stack(("y", "x"), (3, LENGTH))], told, PADDING)
    assert found["x", LENGTH].kinds is KINDS
    assert found["y", 3].kinds is told["target"]


def test_a_stream_of_another_name_takes_the_only_kinds_of_its_length():
    told = {"source": KINDS, "target": torch.zeros(2, 7).long()}
    (found,) = find_streams_of_stacks([stack()], told, PADDING).values()
    assert found.kinds is KINDS
    (found,) = find_streams_of_stacks(
        [stack()], {"source": KINDS, "target": KINDS}, PADDING
    ).values()
    assert found.kinds is None


def test_kinds_of_another_length_are_those_of_another_stream():
    (found,) = find_streams_of_stacks(
        [stack()], {"tokens": torch.zeros(2, 7).long()}, PADDING
    ).values()
    assert found.kinds is None


def test_lengths_alone_may_say_which_stream_is_which():
    call, told = stack(("y", "x"), (3, LENGTH)).record, {"a": KINDS, "b": torch.zeros(2, 3).long()}
    above, across = find_streams_by_length(call, told, PADDING)
    assert (above.kinds is told["b"], across.kinds is KINDS) == (True, True)
    assert across.real.sum(dim=1).tolist() == [3, 4]


@pytest.mark.parametrize("told", [{}, {"a": KINDS, "b": KINDS}, {"a": KINDS[:1]}])
def test_where_lengths_do_not_say_it_nothing_is_known_yet(told):
    assert find_streams_by_length(stack().record, told, PADDING) is None


def test_padding_at_the_left_is_refused():
    with pytest.raises(InputError, match="padding at the right, got examples of 'tokens'"):
        find_streams_of_stacks([stack(real=REAL.flip(1))], {}, PADDING)
