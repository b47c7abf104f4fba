"""What of an output is judged."""

from typing import Any

import pytest
import torch
from torch import nn

from regard.attribution.clean_run import CleanRun
from regard.attribution.objectives import (
    CustomObjective,
    OutputSimilarity,
    TokenProbability,
    default_objective,
    main_tensor,
    vocabulary_size,
)
from regard.errors import InputError, ShapeError
from regard.tracing.inputs.example import PreparedExample, prepare_example
from studies.tiny_models import Finder, reader, tokenizer, translator, writer

TEXT = "we love tea"


def example_of(count: int = 5) -> PreparedExample:
    return prepare_example(nn.Embedding(11, 3), None, {"input": torch.arange(count)[None]})


def judged(
    output: Any, model: nn.Module | None = None, **how: Any
) -> TokenProbability | OutputSimilarity:
    how = {"causal": False} | how
    return default_objective(model or nn.Identity(), example_of(), output, **how)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (translator(), "generated text"),
        (translator(recurrent=True), "generated text"),
        (writer(), "next token"),
        (reader(), "similarity"),
        (reader(head="language"), "tokens"),
        (reader(head="classes", labels=5), "class"),
        (Finder(vocabulary=61), "class"),
    ],
)
def test_what_is_judged_is_what_the_model_is_for(model: nn.Module, name: str) -> None:
    run = CleanRun.of(model, tokenizer(), TEXT)
    assert run.objective.name == name
    assert 0 < run.value <= 1 + 1e-9


def test_the_probability_of_several_tokens_is_their_geometric_mean() -> None:
    logits = torch.randn(1, 5, 7)
    said = TokenProbability("generated text", (0, 1, 2, 3, 4), torch.tensor([1, 2, 3, 4, 5]))
    chosen = logits.softmax(-1)[0, range(5), range(1, 6)]
    assert said(logits).item() == pytest.approx(chosen.log().mean().exp().item())


def test_the_class_is_the_likeliest() -> None:
    logits = torch.tensor([[1.0, 4.0, 2.0]])
    assert judged(logits)(logits).item() == pytest.approx(logits.softmax(-1)[0, 1].item())


def test_rows_of_tokens_follow_them_when_others_are_gone() -> None:
    logits = torch.randn(1, 5, 7)
    judge = judged({"logits": logits}, masks=[3])
    assert judge.name == "masked tokens"
    shorter = {"logits": logits[:, [0, 2, 3]]}  # the second and the last were deleted
    places = torch.tensor([[0, -1, 1, 2, -1]])
    torch.testing.assert_close(judge.after_erasure(shorter, places), judge({"logits": logits}))


def test_rows_of_tokens_that_are_gone_do_not_count() -> None:
    logits = torch.randn(1, 5, 7)
    judge = judged({"logits": logits})
    assert (judge.name, judge.rows) == ("tokens", (0, 1, 2, 3, 4))  # type: ignore[union-attr]
    changed = logits.clone()
    changed[0, 1] = 0
    places = torch.tensor([[0, -1, 2, 3, 4]])
    torch.testing.assert_close(
        judge.after_erasure({"logits": changed}, places),
        judge.after_erasure({"logits": logits}, places),
    )
    assert judge({"logits": changed}).item() < judge({"logits": logits}).item()


def test_the_next_token_is_that_of_the_last_row_however_many_there_are() -> None:
    logits = torch.randn(1, 5, 7)
    judge = judged({"logits": logits}, causal=True)
    shorter = {"logits": logits[:, 2:]}
    places = torch.tensor([[-1, -1, 0, 1, 2]])
    torch.testing.assert_close(judge.after_erasure(shorter, places), judge({"logits": logits}))


def test_likeness_leaves_out_vectors_of_tokens_that_are_gone() -> None:
    vectors = torch.randn(1, 5, 3)
    judge = judged(vectors)
    assert judge(vectors).item() == pytest.approx(1)
    changed = vectors.clone()
    changed[0, 4] = 100
    places = torch.tensor([[0, 1, 2, 3, -1]])
    torch.testing.assert_close(
        judge.after_erasure(changed, places), judge.after_erasure(vectors, places)
    )
    expected = torch.cosine_similarity(vectors[0, :4].mean(0), vectors[0].mean(0), dim=0)
    assert judge.after_erasure(vectors, places).item() == pytest.approx(expected.item())


def test_likeness_of_rows_that_are_no_tokens_is_over_all_of_them() -> None:
    vectors = torch.randn(1, 3, 7)
    judge = judged(vectors)
    assert not judge.rows_are_tokens
    torch.testing.assert_close(
        judge.after_erasure(vectors, torch.tensor([[-1, 0, 1, 2, 3]])), judge(vectors)
    )


def test_an_objective_of_one_s_own_gives_a_number_for_each_example() -> None:
    given = CustomObjective(lambda output: output.sum(dim=(1, 2)))
    assert given(torch.ones(2, 3, 5)).tolist() == [15, 15]
    with pytest.raises(ShapeError, match=r"a number for each example of a batch, got \(2, 3\)"):
        CustomObjective(lambda output: output[..., 0])(torch.ones(2, 3, 5))
    with pytest.raises(ShapeError, match="got float"):
        CustomObjective(lambda output: 1.0)(torch.ones(2, 3, 5))


def test_the_main_tensor_is_found_in_what_models_give() -> None:
    hidden, logits = torch.randn(1, 5, 3), torch.randn(1, 5, 7)
    assert main_tensor({"last_hidden_state": hidden, "logits": logits})[0] is logits
    assert main_tensor((torch.tensor([1]), hidden)) == (hidden, False)
    assert main_tensor({"scores": None, "states": hidden})[0] is hidden


@pytest.mark.parametrize("output", [None, {}, (torch.tensor([[1]]),), "words"])
def test_an_output_without_logits_or_states_needs_an_objective(output: Any) -> None:
    with pytest.raises(InputError, match="give an objective"):
        main_tensor(output)


def test_one_number_has_no_probability() -> None:
    with pytest.raises(InputError, match="the model gives one number"):
        judged(torch.ones(1, 1))


def test_the_vocabulary_is_the_config_s_or_the_largest_table() -> None:
    assert vocabulary_size(writer()) == len(tokenizer())
    assert vocabulary_size(nn.Sequential(nn.Embedding(7, 3), nn.Embedding(13, 3))) == 13
    assert vocabulary_size(nn.Identity()) == 0
