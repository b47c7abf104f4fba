"""Each function of torch has its rule, decided once; getters and sizes have none."""

import pytest
import torch
import torch.nn.functional as F

from regard.tracing.dataflow import rule_table
from regard.tracing.dataflow.rule_table import BY_NAME, rule_of


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        (torch.Tensor.shape.__get__, "nothing"),
        (torch.Tensor.dtype.__get__, "nothing"),
        (torch.Tensor.size, "nothing"),
        (torch.Tensor.mT.__get__, "layout"),
        (torch.Tensor.view, "layout"),
        (torch.Tensor.__getitem__, "layout"),
        (F.dropout, "carry"),
        (F.layer_norm, "elementwise"),
        (torch.add, "combine"),
        (F.softmax, "softmax"),
        (torch.Tensor.softmax, "softmax"),
        (torch.ops.aten._softmax.default, "softmax"),
        (torch.einsum, "product"),
        (torch.ops.aten.bmm.default, "product"),
        (torch._VF.gru, "recur"),
        (torch.fft.fft, "fourier"),
        (torch.fft.ifft, "other"),
    ],
)
def test_a_function_of_torch_has_the_rule_of_its_name(function, rule):
    assert rule_of(function)[0] == rule


def test_a_function_of_somebody_s_own_is_not_kept():
    def softmax(x):
        return x

    softmax.__module__ = "elsewhere"
    assert rule_of(softmax)[0] == "other"
    assert softmax not in rule_table._cached


def test_a_function_is_looked_up_once():
    first = rule_of(torch.Tensor.shape.__get__)
    assert rule_of(torch.Tensor.shape.__get__) is first


def test_no_name_has_two_rules():
    names = [name for kind in rule_table._RULES.values() for name in kind.split()]
    names += [*rule_table._NOTHING.split(), *rule_table.LAYOUTS]
    assert len(names) == len(set(names)) == len(BY_NAME)
