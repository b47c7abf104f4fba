"""Several watchers of one thread: each sees what it would see alone, in any order of leaving."""

import asyncio
import threading
import warnings

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

import regard
from regard.errors import InputError
from regard.tracing import Keep, knock_out, uniform
from tracing import hands
from tracing.decoders import VOCABULARY, Decoder, Pair, step_by_step

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from transformers import masking_utils, modeling_utils

    from tracing import strangers

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("unchecked"),
]


def decoding(_name):
    model, ids = Decoder(), torch.randint(VOCABULARY, (2, 5))
    return model, lambda: step_by_step(model, ids)


def two_sides(_name):
    model = Pair()
    source, target = torch.randint(VOCABULARY, (3, 7)), torch.randint(VOCABULARY, (3, 5))
    return model, lambda: model(source, target)


def of_torch(_name):
    model = nn.TransformerEncoderLayer(12, 3, 17, batch_first=True).eval()
    x = torch.randn(2, 7, 12)
    return model, lambda: model(x)


def by_hand(_name):
    model, x = hands.Model(hands.by_matmul), hands.an_input()
    return model, lambda: model(x)


def stranger(name):
    model, feed = strangers.model(name), strangers.inputs(name)
    return model, lambda: model(**feed)[0]


CASES = {
    "decoding": decoding,
    "two sides": two_sides,
    "torch": of_torch,
    "by hand": by_hand,
    "bert": stranger,
    "mistral": stranger,
    "bart": stranger,
}


def assert_same(traces, others):
    assert len(traces) == len(others)
    for trace, other in zip(traces, others, strict=True):
        assert repr(trace) == repr(other)
        for one, two in zip(trace, other, strict=True):
            assert torch.equal(one.weights(), two.weights())
            if one.statistics is not None:
                assert torch.equal(one.statistics.entropy, two.statistics.entropy)


@pytest.fixture(params=CASES)
def case(request):
    """A model, how to run it, and what one watcher sees of it."""
    model, run = CASES[request.param](request.param)
    with torch.no_grad(), regard.watch(model) as alone:
        result = run()
    return model, run, alone, result


@torch.no_grad()
def test_a_watcher_inside_a_watcher_sees_the_same_and_so_does_the_outer(case):
    model, run, alone, expected = case
    with regard.watch(model) as outer, regard.watch(model) as inner:
        result = run()
    assert torch.equal(result, expected)
    assert_same(outer, alone)
    assert_same(inner, alone)


@torch.no_grad()
def test_watchers_may_be_left_in_the_order_in_which_they_were_entered(case):
    model, run, alone, expected = case
    first, second = regard.watch(model), regard.watch(model)
    of_first = first.__enter__()
    of_second = second.__enter__()
    result = run()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert torch.equal(result, expected)
    assert_same(of_first, alone)
    assert_same(of_second, alone)
    assert not _get_current_function_mode_stack()


@torch.no_grad()
def test_a_watcher_sees_the_calls_between_its_own_entering_and_leaving_only():
    model, run = decoding("")
    first, second = regard.watch(model, sites="layers.0"), regard.watch(model, sites="layers.0")
    of_first = first.__enter__()
    run()
    of_second = second.__enter__()
    run()
    first.__exit__(None, None, None)
    run(), run()
    second.__exit__(None, None, None)
    run()
    assert [len(of_first[0].maps), len(of_second[0].maps)] == [2, 3]


@torch.no_grad()
def test_each_watcher_names_sites_and_streams_by_its_own_model():
    model, x = nn.Sequential(hands.Model(hands.by_matmul), hands.Model(hands.by_sum)), None
    x = hands.an_input()
    with regard.watch(model[1]) as alone:
        model(x)
    with regard.watch(model) as whole, regard.watch(model[1]) as part:
        model(x)
    assert_same(part, alone)
    assert repr(whole[0]) != repr(part[0])
    with regard.watch(model) as whole_alone:
        model(x)
    assert_same(whole, whole_alone)


@torch.no_grad()
def test_watchers_of_two_asyncio_tasks_both_see_every_call():
    model, run = decoding("")

    async def watch(delays):
        with regard.watch(model, sites="layers.1") as seen:
            for delay in delays:
                await asyncio.sleep(0)
                run() if delay else None
        return seen

    async def both():
        return await asyncio.gather(watch([1, 0, 0, 0]), watch([0, 0, 1]))

    one, two = asyncio.run(both())
    assert [len(one[0].maps), len(two[0].maps)] == [2, 2]
    assert_same(one, two)


@torch.no_grad()
def test_generators_that_watch_may_be_closed_in_any_order():
    model, run = decoding("")

    def watch(seen):
        with regard.watch(model) as traces:
            seen.append(traces)
            yield

    seen, blocks = [], []
    for _ in range(3):
        blocks.append(watch(seen))
        next(blocks[-1])
    run()
    for number in (1, 0, 2):
        next(blocks[number], None)
    assert_same(seen[0], seen[1])
    assert_same(seen[0], seen[2])
    assert not _get_current_function_mode_stack()


def registered():
    mapping = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS._global_mapping
    return [*mapping.items(), vars(modeling_utils.AttentionInterface)["get_interface"]]


def leave_elsewhere(block):
    errors = []

    def leave():
        try:
            block.__exit__(None, None, None)
        except InputError as error:
            errors.append(str(error))

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    return errors


def test_a_block_that_is_left_in_another_thread_gets_a_sentence():
    model, run = decoding("")
    before, block = registered(), regard.watch(model)
    block.__enter__()
    run()
    (error,) = leave_elsewhere(block)
    assert error.startswith("expected a block of `watch` to be left in the thread that entered it")
    assert registered() == before
    assert not any(module._forward_pre_hooks for module in model.modules())


@torch.no_grad()
def test_after_leaving_in_another_thread_this_one_watches_as_before():
    model, run = decoding("")
    with regard.watch(model) as alone:
        expected = run()
    left, stays = regard.watch(model), regard.watch(model)
    left.__enter__()
    leave_elsewhere(left)
    assert torch.equal(run(), expected)  # the watcher that was left is still on the stack
    of_stays = stays.__enter__()
    run()
    stays.__exit__(None, None, None)
    assert_same(of_stays, alone)
    assert not _get_current_function_mode_stack()


@torch.no_grad()
def test_one_of_two_watchers_may_be_left_in_another_thread():
    model, run = decoding("")
    with regard.watch(model) as alone:
        run()
    left = regard.watch(model)
    with regard.watch(model) as seen:
        left.__enter__()
        assert leave_elsewhere(left)
        run()
    assert_same(seen, alone)
    assert not _get_current_function_mode_stack()


class Noting(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **kwargs or {})


def test_a_caller_s_own_mode_keeps_its_place_when_a_watcher_below_is_left():
    first, mode = regard.watch(nn.Identity()), Noting()
    first.__enter__()
    with mode:
        with pytest.raises(InputError, match="no attention was seen"):
            first.__exit__(None, None, None)
        assert _get_current_function_mode_stack() == [mode]
    assert not _get_current_function_mode_stack()


@torch.no_grad()
@pytest.mark.parametrize("kind", ["torch", "by hand", "decoding"])
@pytest.mark.parametrize("place", [0, 1])
def test_an_edit_of_one_watcher_is_in_the_result_and_in_every_record(kind, place):
    model, run = CASES[kind](kind)
    edit = knock_out("*", [1])
    with regard.watch(model, edit=edit) as alone:
        expected = run()
    edits = [None, None]
    edits[place] = edit
    with regard.watch(model, edit=edits[0]) as outer, regard.watch(model, edit=edits[1]) as inner:
        result = run()
    assert torch.equal(result, expected)
    assert_same(outer, alone)
    assert_same(inner, alone)


@torch.no_grad()
def test_of_two_edits_of_one_head_that_of_the_later_watcher_counts():
    model, run = of_torch("")
    with regard.watch(model, edit=[uniform("*", [1, 2]), knock_out("*", [1])]) as alone:
        expected = run()
    edits = uniform("*", [1, 2]), knock_out("*", [1])
    with regard.watch(model, edit=edits[0]) as seen, regard.watch(model, edit=edits[1]):
        assert torch.equal(run(), expected)
    assert_same(seen, alone)


@pytest.mark.parametrize("kind", ["torch", "by hand", "bert"])
def test_both_watchers_keep_gradients_values_and_projections(kind):
    model, run = CASES[kind](kind)
    keep = Keep(values=True, gradients=True, outputs=True)
    with regard.watch(model, keep=keep) as alone:
        run().square().sum().backward()
    with regard.watch(model, keep=keep) as outer, regard.watch(model, keep=keep) as inner:
        run().square().sum().backward()
    for expected, *others in zip(alone[0], outer[0], inner[0], strict=True):
        for other in others:
            torch.testing.assert_close(other.gradient, expected.gradient)
            torch.testing.assert_close(other.values, expected.values)
            torch.testing.assert_close(other.output_projection, expected.output_projection)


@torch.no_grad()
def test_beside_of_one_watcher_keeps_the_outputs_bit_for_bit():
    model, run = decoding("")
    unwatched = run()
    with regard.watch(model), regard.watch(model, beside=True):
        assert torch.equal(run(), unwatched)


@torch.no_grad()
def test_a_watcher_records_a_call_that_another_leaves_out():
    model, run = decoding("")
    with (
        regard.watch(model, sites="layers.0") as first,
        regard.watch(model, sites="layers.1", keep="dense", top=2) as second,
    ):
        run()
    assert [each.site for each in (*first[0], *second[0])] == ["layers.0", "layers.1"]
    assert second[0].maps[0].top.keys.shape[-1] == 2
    assert first[0].maps[0].top is None


@torch.no_grad()
def test_an_edit_function_may_watch_a_model_of_its_own():
    model, run = decoding("")
    other, run_other = by_hand("")
    inside = []

    def edit(call):
        with regard.watch(other) as seen:
            run_other()
        inside.append(seen)

    with regard.watch(model, edit=edit) as seen:
        run()
    with regard.watch(model) as alone:
        run()
    assert_same(seen, alone)
    assert len(inside[0][0].maps) == len(inside[-1][0].maps) > 0
