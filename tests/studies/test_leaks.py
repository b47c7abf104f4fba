"""What should make no difference: later tokens, and padding."""

import pytest
import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.models import Transformer
from regard.studies.leaks import causal_leak, padding_leak
from studies.tiny_models import Finder, reader, tokenizer, translator, writer

TEXT = "we love tea and cats"
IDS = {"input_ids": torch.tensor([[5, 6, 7, 8, 9, 10, 11]])}


class Leaky(nn.Module):
    """A causal model, but each row has something of the one behind it."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.model, self.share = writer(), share

    def forward(self, input_ids: Tensor) -> Tensor:
        said = self.model(input_ids)
        return said + self.share * said.roll(-1, dims=1)


class Heedless(nn.Module):
    """Is told of padding and does not listen."""

    def __init__(self) -> None:
        super().__init__()
        self.model = reader()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.model(input_ids)


class Mixed(Heedless):
    """Has something of the whole batch in each example."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        found = self.model(input_ids, attention_mask=attention_mask)
        return found + 0.5 * found.mean(dim=0)


@pytest.mark.parametrize("model", [writer(), translator(), translator(recurrent=True)])
def test_a_causal_model_does_not_leak_at_all(model: nn.Module) -> None:
    found = causal_leak(model, tokenizer(), TEXT)
    assert found.largest == 0
    assert not found.rows.any()


@pytest.mark.parametrize("share", [1e-3, 0.5])
def test_a_leak_is_found_where_it_is(share: float) -> None:
    found = causal_leak(Leaky(share), None, IDS)
    assert found.largest > share / 10
    assert found.change == found.row + 1
    assert found.rows[found.row].item() == found.largest
    assert found.rows[-1] == 0  # nothing comes after the last


def test_a_model_that_looks_both_ways_changes_with_what_comes_later() -> None:
    assert causal_leak(reader(), tokenizer(), TEXT).largest > 1e-2


def test_a_decoder_that_is_not_masked_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.models.transformer.model.causal", lambda: None)
    found = causal_leak(translator(), tokenizer(), TEXT, target="you see the big cat")
    assert found.largest > 1e-3


def test_later_vectors_are_exchanged_too() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    x = torch.randn(1, 5, 8)
    assert causal_leak(layer, None, {"src": x, "src_mask": mask}).largest < 1e-6
    assert causal_leak(layer, None, {"src": x}).largest > 1e-2


def test_a_change_is_relative_to_the_spread_of_the_output() -> None:
    class Louder(Leaky):
        def forward(self, input_ids: Tensor) -> Tensor:
            return 100 * super().forward(input_ids)

    one, other = causal_leak(Leaky(0.5), None, IDS), causal_leak(Louder(0.5), None, IDS)
    assert one.largest == pytest.approx(other.largest, rel=1e-4)
    assert other.scale == pytest.approx(100 * one.scale, rel=1e-4)


def test_what_has_nothing_before_it_is_refused() -> None:
    with pytest.raises(InputError, match="expected at least two tokens"):
        causal_leak(writer(), None, {"input_ids": torch.tensor([[5]])})
    with pytest.raises(InputError, match="an output for each of 7 tokens, got 1"):
        causal_leak(Finder(vocabulary=13), None, IDS)


@pytest.mark.parametrize(
    "model", [reader(), writer(), translator(), translator(recurrent=True), reader(head="language")]
)
def test_padding_makes_no_difference_to_who_heeds_it(model: nn.Module) -> None:
    assert padding_leak(model, tokenizer(), TEXT).largest < 1e-5


def test_padding_on_the_left_makes_none_to_a_decoder_that_counts_real_tokens() -> None:
    assert padding_leak(writer(), tokenizer(), TEXT, side="left").largest < 1e-5


@pytest.mark.parametrize("make", [Heedless, Mixed])
def test_a_model_that_does_not_keep_to_its_own_tokens_is_found(make) -> None:
    found = padding_leak(make(), tokenizer(), TEXT, padding=5)
    assert found.largest > 1e-2
    assert found.change == 5


def test_a_class_is_compared_as_a_whole() -> None:
    model = Transformer(kind="encoder", head="classes", labels=3, vocab=61, d_model=12, heads=2)
    assert padding_leak(model, None, IDS).largest < 1e-5


def test_a_model_that_cannot_be_told_of_padding_is_refused() -> None:
    with pytest.raises(InputError, match="Finder cannot be told of padding"):
        padding_leak(Finder(), None, IDS)
    with pytest.raises(InputError, match="at least one token of padding, got 0"):
        padding_leak(reader(), None, IDS, padding=0)
