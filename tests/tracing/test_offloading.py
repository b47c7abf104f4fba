"""Models whose weights are on no device until a layer runs, as device maps with offloading do."""

import functools

import pytest
import torch
from torch import nn

import regard
from tracing.distributed.models import Model, make_ids


def make():
    torch.manual_seed(5)
    return Model().eval()


def offload(module, read):
    """Load a module's parameters before it runs, and drop them afterwards."""

    def load(module, args):
        for name, parameter in read().items():
            setattr(module, name, nn.Parameter(parameter))

    def drop(module, args, result):
        for name, parameter in list(module.named_parameters()):
            setattr(module, name, nn.Parameter(parameter.to("meta")))

    module.register_forward_pre_hook(load)
    module.register_forward_hook(drop)
    drop(module, (), None)


@pytest.fixture(params=["memory", "disk"])
def offloaded(request, tmp_path):
    model = make()
    leaves = [module for module in model.modules() if isinstance(module, nn.Linear | nn.Embedding)]
    for number, module in enumerate(leaves):
        file, state = tmp_path / str(number), dict(module.state_dict())
        torch.save(state, file)
        from_disk = functools.partial(torch.load, file, weights_only=True)
        offload(module, from_disk if request.param == "disk" else lambda state=state: state)
    return model


def test_an_offloaded_model_is_watched_as_the_whole_one(offloaded):
    assert all(parameter.is_meta for parameter in offloaded.parameters())
    with torch.no_grad(), regard.watch(offloaded) as seen:
        watched = offloaded(make_ids())
    with torch.no_grad(), regard.watch(make()) as expected:
        make()(make_ids())
    torch.testing.assert_close(watched, offloaded(make_ids()))
    for site, same in zip(seen[1].maps, expected[1].maps, strict=True):
        torch.testing.assert_close(site.weights(), same.weights())
    assert not seen[1].gaps
