"""Tokens that are erased: by another id, as keys, or left out."""

from dataclasses import replace

import pytest
import torch

from regard.attribution.clean_run import CleanRun
from regard.attribution.erasure import (
    Eraser,
    ErasureMethod,
    ErasureOptions,
    hide_keys,
    repeat_arguments,
)
from regard.errors import InputError, UnknownNameError
from regard.tracing.inputs.example import run_forward
from regard.types import Trace
from studies.tiny_models import SOUGHT, Finder, reader, tokenizer, translator, writer

TEXT = "we love tea and cats"
WAYS: tuple[ErasureMethod, ...] = ("mask-token", "attention", "delete")
IDS = {"input_ids": torch.tensor([[5, 2, SOUGHT, 7, 9]])}


def eraser(by: ErasureMethod | None, **how: object) -> Eraser:
    return Eraser(CleanRun.of(Finder(), None, IDS), ErasureOptions(by, **how))  # type: ignore[arg-type]


@pytest.mark.parametrize("by", WAYS)
def test_only_the_word_that_is_looked_for_makes_a_difference(by: ErasureMethod) -> None:
    values = eraser(by, fill=10).values([[0], [1], [2], [3], [4], [0, 1, 3, 4]])
    torch.testing.assert_close(values[[0, 1, 3, 4, 5]], values.new_full((5,), values[0].item()))
    assert values[2] < 0.2 * values[0]


@pytest.mark.parametrize("by", WAYS)
def test_nothing_erased_is_the_whole(by: ErasureMethod) -> None:
    found = eraser(by)
    assert found.values([[]]).item() == found.run.value


@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("make", [writer, reader, translator])
def test_variants_together_are_what_they_are_alone(by: ErasureMethod, make) -> None:
    run = CleanRun.of(make(), tokenizer(), TEXT)
    erased = [[0], [1, 2], [3], [0, 2], [0, 1, 3]]
    together = Eraser(run, ErasureOptions(by)).values(erased)
    alone = [Eraser(run, ErasureOptions(by)).values([each]).item() for each in erased]
    torch.testing.assert_close(together, torch.tensor(alone).double(), atol=1e-5, rtol=0)
    assert len({*together.tolist()}) == len(erased)


def test_a_variant_is_run_once() -> None:
    found = eraser("mask-token", fill=10)
    first = found.values([[0], [1]])
    found._run = None  # type: ignore[assignment, method-assign]
    torch.testing.assert_close(found.values([[1], [0], [1]]), first[[1, 0, 1]])


def test_variants_that_are_too_large_run_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = eraser("attention").values([[0], [2], [3]])
    monkeypatch.setattr("regard.attribution.clean_run.NUMBERS_HELD", 1)
    found = eraser("attention")
    assert [len(each) for each in found._batches([frozenset({0}), frozenset({1})])] == [1, 1]
    torch.testing.assert_close(found.values([[0], [2], [3]]), whole)


def test_a_token_that_no_query_sees_is_one_that_the_mask_hides() -> None:
    model, ids = reader(), torch.tensor([[5, 6, 7, 8, 9]])
    marks = torch.tensor([[1, 1, 0, 1, 1]])
    hidden = run_forward(model, {"input_ids": ids, "attention_mask": marks})[0, [0, 1, 3, 4]]
    run = CleanRun.of(model, None, {"input_ids": ids})
    expected = torch.cosine_similarity(hidden.mean(0), run.objective.full_mean.float(), dim=0)  # type: ignore[union-attr]
    found = Eraser(run, ErasureOptions("attention")).values([[2]])
    assert found.item() == pytest.approx(expected.item(), abs=1e-6)


def test_weights_without_a_key_are_those_of_a_softmax_without_it() -> None:
    scores = torch.randn(2, 3, 5, 7)
    gone = torch.rand(2, 1, 1, 7) < 0.3
    expected = scores.masked_fill(gone, -torch.inf).softmax(-1)
    torch.testing.assert_close(hide_keys(scores.softmax(-1), gone), expected)


def test_a_sink_takes_its_part_of_what_a_key_had() -> None:
    scores = torch.randn(2, 3, 5, 7)
    gone = torch.rand(2, 1, 1, 6) < 0.3
    weights = scores.softmax(-1)[..., :6]  # the last score is a sink's
    hidden = torch.cat([gone, torch.zeros(2, 1, 1, 1, dtype=torch.bool)], dim=-1)
    expected = scores.masked_fill(hidden, -torch.inf).softmax(-1)[..., :6]
    torch.testing.assert_close(hide_keys(weights, gone, sink=True), expected)


@pytest.mark.parametrize("sink", [False, True])
def test_a_row_that_sees_nothing_else_sees_nothing(sink: bool) -> None:
    weights = torch.tensor([[[[1.0, 0.0]]]])
    assert not hide_keys(weights, torch.tensor([[[[True, False]]]]), sink=sink).any()


def test_deleted_tokens_are_those_of_a_shorter_text() -> None:
    model = writer()
    run = CleanRun.of(model, None, {"input_ids": torch.tensor([[5, 6, 7, 8]])})
    found = Eraser(run, ErasureOptions("delete")).values([[1]])
    shorter = run_forward(model, {"input_ids": torch.tensor([[5, 7, 8]])})
    assert found.item() == pytest.approx(run.objective(shorter).item())


def test_vectors_are_filled_with_zeros_or_what_is_said() -> None:
    x = torch.randn(1, 5, 8)
    model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    run = CleanRun.of(model, None, {"src": x})
    for fill in (None, 0.25):
        other = x.clone()
        other[:, 3] = fill or 0.0
        expected = run.objective.after_erasure(
            run_forward(model, {"src": other}), torch.tensor([[0, 1, 2, -1, 4]])
        )
        found = Eraser(run, ErasureOptions("mask-token", fill=fill)).values([[3]])
        torch.testing.assert_close(found, expected)


def test_ids_are_filled_with_the_token_that_the_tokenizer_has_for_it() -> None:
    run = CleanRun.of(writer(), tokenizer(), TEXT)
    found = Eraser(run, ErasureOptions("mask-token"))
    assert found._fill_id() == tokenizer().unk_token_id


@pytest.mark.parametrize(
    ("model", "by"),
    [(writer(), "attention"), (translator(), "attention"), (translator(True), "delete")],
)
def test_without_a_mask_token_it_is_by_attention_where_tokens_attend_to_one_another(
    model: torch.nn.Module, by: str
) -> None:
    assert Eraser(CleanRun.of(model, tokenizer(), TEXT)).by == by


def test_the_token_before_the_next_one_is_not_erased_as_a_key() -> None:
    run = CleanRun.of(writer(), tokenizer(), TEXT)
    last = len(run.tokens) - 1
    assert [last] not in Eraser(run, ErasureOptions("attention", special=True)).units
    assert [last] in Eraser(run, ErasureOptions("delete", special=True)).units


def test_words_are_called_by_their_pieces() -> None:
    found = eraser("delete")
    assert found.texts == ("5", "2", "3", "7", "9")
    torch.testing.assert_close(found.sum_over_pieces(torch.arange(5.0)), torch.arange(5.0).double())


def test_arguments_are_repeated_where_they_are_a_batch_of_one() -> None:
    given = {"ids": torch.ones(1, 3), "mask": torch.ones(3, 3), "flag": True}
    sizes = {
        name: getattr(each, "shape", each) for name, each in repeat_arguments(given, 5).items()
    }
    assert sizes == {"ids": (5, 3), "mask": (3, 3), "flag": True}


@pytest.mark.usefixtures("unchecked")
def test_ways_that_there_are_not_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'delete'"):
        ErasureOptions("deleted")  # type: ignore[arg-type]


def test_what_cannot_be_erased_is_told() -> None:
    with pytest.raises(InputError, match="give the id to put there as fill="):
        eraser("mask-token").values([[0]])
    with pytest.raises(InputError, match="would leave no token at all"):
        eraser("delete").values([range(5)])
    alone = CleanRun.of(writer(), None, {"input_ids": torch.tensor([[5]])})
    with pytest.raises(InputError, match="more than what is needed to tell the next token"):
        Eraser(alone, ErasureOptions("attention"))
    run = replace(CleanRun.of(Finder(), None, IDS), trace=Trace({}, ()))
    with pytest.raises(InputError, match="was not seen to attend to its tokens"):
        Eraser(run, ErasureOptions("attention")).values([[0]])
