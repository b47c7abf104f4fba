from types import SimpleNamespace

import torch
from torch import nn

from regard.tracing.inputs.generation import generate_ids


class Own(nn.Module):
    """A model whose generate says itself which rows were whose."""

    def __init__(self, **result):
        super().__init__()
        self.result = SimpleNamespace(**result)

    def generate(self, input_ids, beams=1):
        return self.result


def test_rows_that_the_model_tells_are_taken():
    rows = torch.tensor([[0, 1], [1, 2], [-1, 0]])
    model = Own(sequences=torch.tensor([[1, 5, 7, 0], [1, 5, 3, 2]]), rows=rows)
    decoded = generate_ids(model, {"input_ids": torch.tensor([[9, 9], [9, 9]])}, {"beams": 2}, 2)
    assert decoded.rows.tolist() == rows.tolist()
    assert decoded.prompt == ((1,), (1,))
    assert decoded.produced == ((5, 7), (5, 3, 2))


class Plain(nn.Module):
    """A model whose generate gives ids alone; 2 and 3 end them."""

    generation_config = SimpleNamespace(eos_token_id=[2, 3])

    def generate(self, input_ids, **plan):
        more = torch.tensor([[5, 2, 0, 0], [5, 5, 5, 3]])
        return torch.cat([input_ids, more], dim=1)[: len(input_ids)]


def test_ids_alone_end_where_an_end_was_produced():
    decoded = generate_ids(Plain(), {"input_ids": torch.tensor([[7, 8], [7, 9]])}, {}, 2)
    assert decoded.prompt == ((7, 8), (7, 9))
    assert decoded.produced == ((5, 2), (5, 5, 5, 3))
    assert decoded.rows.tolist() == [[0, 1], [0, 1], [-1, 1], [-1, 1]]


def test_the_plan_may_say_what_ends():
    plan = {"eos_token_id": torch.tensor(5)}
    decoded = generate_ids(Plain(), {"input_ids": torch.tensor([[7, 8], [7, 9]])}, plan, 2)
    assert decoded.produced == ((5,), (5,))
