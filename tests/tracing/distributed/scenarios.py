"""Run by test_distributed.py in two processes: watches models that both of them share."""

import json
import sys
import traceback
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel
from transformers import LlamaConfig, LlamaForCausalLM

import regard
from regard.errors import InputError
from regard.tracing import Keep, knock_out
from regard.tracing.head_shards import is_tensor_parallel
from regard.tracing.parallel_heads import meeting
from tracing.distributed.models import (
    HEADS,
    KEY_HEADS,
    Block,
    Model,
    SplitQueries,
    Translator,
    make_ids,
)


def make(kind=Model, **settings):
    """A model with the same numbers in every process."""
    torch.manual_seed(5)
    return kind(**settings).eval()


def split_heads(model, *paths, **layout):
    """The model with the heads of its attention modules split over both processes."""
    plan = {f"{path}.{name}": ColwiseParallel(**layout) for path in paths for name in "qkv"}
    plan |= {f"{path}.o": RowwiseParallel() for path in paths}
    return parallelize_module(model, init_device_mesh("cpu", (2,)), plan)


def check_same(traces, others):
    """Traces have the same sites, kinds, weights and statistics as others."""
    assert len(traces) == len(others) > 0
    for trace, other in zip(traces, others, strict=True):
        assert not trace.gaps
        assert [(site.site, site.kind, site.shape) for site in trace.maps] == [
            (site.site, site.kind, site.shape) for site in other.maps
        ]
        for site, same in zip(trace.maps, other.maps, strict=True):
            assert type(site.weights()) is torch.Tensor
            torch.testing.assert_close(site.weights(), same.weights())
            torch.testing.assert_close(site.row_statistics.entropy, same.row_statistics.entropy)


def check_watched(model, whole, *inputs, **options):
    """Watching changes no output of a model that is split, and gives the traces of the whole."""
    with torch.no_grad():
        alone = model(*inputs)
        with regard.watch(model, **options) as seen:
            watched = model(*inputs)
        with regard.watch(whole, **options) as expected:
            whole(*inputs)
    torch.testing.assert_close(watched, alone)
    check_same(seen, expected)
    return seen


def heads_of_both_processes_are_in_one_trace(rank):
    model = split_heads(make(), "first", "second")
    assert is_tensor_parallel(model)
    seen = check_watched(model, make(), make_ids())
    assert seen[0]["second"].shape == (HEADS, 7, 7)
    assert seen[0]["first"].head_indices is None


def outputs_are_the_same_bit_for_bit_beside(rank):
    model = split_heads(make(), "first", "second")
    with torch.no_grad(), regard.watch(model, beside=True):
        watched = model(make_ids())
    assert torch.equal(watched, model(make_ids()))


def heads_of_attention_by_hand_are_joined(rank):
    check_watched(
        split_heads(make(by_hand=True), "first", "second"), make(by_hand=True), make_ids()
    )


def weights_of_dtensors_become_plain_tensors(rank):
    model = split_heads(make(by_hand=True), "first", "second", use_local_output=False)
    check_watched(model, make(by_hand=True), make_ids())


def attention_on_dtensors_is_observed_beside(rank):
    model = split_heads(make(causal=False), "first", "second", use_local_output=False)
    with sdpa_kernel(SDPBackend.MATH):
        check_watched(model, make(causal=False), make_ids())


def chosen_heads_are_those_of_the_whole_model(rank):
    model = split_heads(make(), "first", "second")
    seen = check_watched(model, make(), make_ids(), sites={"first": [4, 1], "second": 5})
    assert seen[0]["first"].head_indices == (4, 1)


def everything_that_is_kept_is_joined(rank):
    keep = Keep("dense", values=True, gradients=True, outputs=True)
    sites = []
    for model in (make(), split_heads(make(), "first", "second")):
        with regard.watch(model, keep=keep, top=3, atlas=8) as seen:
            model(make_ids()).square().sum().backward()
        sites.append(seen[1]["second"])
    whole, joined = sites
    for name in ("values", "gradient"):
        torch.testing.assert_close(getattr(joined, name), getattr(whole, name))
    assert joined.output_projection is None
    torch.testing.assert_close(joined.top.weights, whole.top.weights)
    torch.testing.assert_close(joined.atlas.mean, whole.atlas.mean)


def cross_attention_is_known_by_its_streams(rank):
    model = split_heads(make(Translator), "cross")
    seen = check_watched(model, make(Translator), make_ids(), make_ids())
    assert seen[0]["cross"].kind == "cross"


def a_layer_that_is_not_split_keeps_its_heads(rank):
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    model = parallelize_module(make(Block), init_device_mesh("cpu", (2,)), plan)
    check_watched(model, make(Block), torch.randn(2, 7, 24, generator=torch.manual_seed(1)))


def an_error_in_one_process_leaves_the_other_its_own_heads(rank):
    model = split_heads(make(), "first", "second")
    try:
        with torch.no_grad(), regard.watch(model) as seen:
            model(make_ids())
            if rank == 1:
                raise KeyError("after the model has run")
    except KeyError:
        return
    assert seen[0]["first"].head_indices == (0, 1, 2)
    assert "its map has the heads 0 to 2 of 6" in seen[0].gaps[0].reason


def a_process_that_does_not_watch_is_not_waited_for(rank):
    meeting.SECONDS = 0.2
    model = split_heads(make(), "first", "second")
    with torch.no_grad():
        if rank == 0:
            model(make_ids())
        else:
            with regard.watch(model, sites={"first": [4, 1], "second": 0}) as seen:
                model(make_ids())
            assert seen[0]["first"].head_indices == (4,)
            assert [site.site for site in seen[0].maps] == ["first"]
            assert [gap.site for gap in seen[0].gaps] == ["first", "second"]
    meeting.SECONDS = 60.0
    check_watched(model, make(), make_ids())


def queries_in_different_processes_are_a_gap(rank):
    mesh, model = init_device_mesh("cpu", (2,)), SplitQueries()
    x = torch.randn(1, 3, 14, 5, generator=torch.manual_seed(2))
    q = distribute_tensor(x, mesh, [Shard(2)])
    k = distribute_tensor(x, mesh, [Replicate()])
    with torch.no_grad(), regard.watch(model) as seen:
        context = model(q, k, k)
    torch.testing.assert_close(context.full_tensor(), model(x, x, x))
    assert not seen[0].maps
    assert "along an axis other than the heads" in seen[0].gaps[0].reason


def edits_of_split_heads_are_refused(rank):
    model = split_heads(make(), "first", "second")
    edit = knock_out("first", heads=[1])
    with (
        pytest.raises(InputError, match="its heads are split over processes"),
        regard.watch(model, edit=edit),
    ):
        model(make_ids())


def decoding_steps_of_split_heads_are_stacked(rank):
    sizes = {"hidden_size": 24, "intermediate_size": 34, "num_hidden_layers": 2, "head_dim": 4}
    heads = {"num_attention_heads": HEADS, "num_key_value_heads": KEY_HEADS, "vocab_size": 31}
    whole, model = (make(LlamaForCausalLM, config=LlamaConfig(**sizes, **heads)) for _ in range(2))
    plan = {f"model.layers.*.self_attn.{side}_proj": ColwiseParallel() for side in "qkv"}
    plan["model.layers.*.self_attn.o_proj"] = RowwiseParallel()
    parallelize_module(model, init_device_mesh("cpu", (2,)), plan)
    settings = {"max_new_tokens": 3, "num_beams": 3, "do_sample": False, "pad_token_id": 0}
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, :2] = 0
    with regard.watch(model) as seen:
        written = model.generate(make_ids(), attention_mask=mask, **settings)
    with regard.watch(whole) as expected:
        whole.generate(make_ids(), attention_mask=mask, **settings)
    assert torch.equal(written, model.generate(make_ids(), attention_mask=mask, **settings))
    check_same(seen, expected)


def fsdp_is_watched_as_the_whole_model(rank):
    model = make()
    for module in (model.first, model.second, model):
        fully_shard(module)
    assert not is_tensor_parallel(model)
    check_watched(model, make(), make_ids())


def fsdp_with_tensor_parallel_is_joined(rank):
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("data", "heads"))
    plan = {f"first.{name}": ColwiseParallel() for name in "qkv"} | {"first.o": RowwiseParallel()}
    model = parallelize_module(make(), mesh["heads"], plan)
    for module in (model.first, model):
        fully_shard(module, mesh=mesh["data"])
    assert is_tensor_parallel(model)
    check_watched(model, make(), make_ids())


def ddp_is_watched_with_the_examples_of_each_process(rank):
    model, ids = DistributedDataParallel(make()), make_ids(batch=5)[rank::2]
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids)
    with torch.no_grad(), regard.watch(make()) as expected:
        make()(ids)
    assert len(seen) == (3, 2)[rank]
    for trace, other in zip(seen, expected, strict=True):
        assert [site.site for site in trace.maps] == ["module.first", "module.second"]
        torch.testing.assert_close(trace.maps[1].weights(), other.maps[1].weights())


SCENARIOS = [
    heads_of_both_processes_are_in_one_trace,
    outputs_are_the_same_bit_for_bit_beside,
    heads_of_attention_by_hand_are_joined,
    weights_of_dtensors_become_plain_tensors,
    attention_on_dtensors_is_observed_beside,
    chosen_heads_are_those_of_the_whole_model,
    everything_that_is_kept_is_joined,
    cross_attention_is_known_by_its_streams,
    a_layer_that_is_not_split_keeps_its_heads,
    an_error_in_one_process_leaves_the_other_its_own_heads,
    a_process_that_does_not_watch_is_not_waited_for,
    queries_in_different_processes_are_a_gap,
    edits_of_split_heads_are_refused,
    decoding_steps_of_split_heads_are_stacked,
    fsdp_is_watched_as_the_whole_model,
    fsdp_with_tensor_parallel_is_joined,
    ddp_is_watched_with_the_examples_of_each_process,
]


def main(rank: int, port: int, folder: str, names: list[str]) -> None:
    """Run all scenarios in one of two processes, and write which of them failed, and how."""
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    limit = timedelta(seconds=30)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=limit)
    errors = {}
    for scenario in SCENARIOS:
        if names and scenario.__name__ not in names:
            continue
        try:
            scenario(rank)
            errors[scenario.__name__] = ""
        except Exception:
            errors[scenario.__name__] = traceback.format_exc()
        Path(folder, f"errors-{rank}.json").write_text(json.dumps(errors))
        dist.barrier()  # a process that failed may be ahead of the other
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
