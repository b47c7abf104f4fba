"""One example as a model takes it, and what the model gives when it is changed."""

import pytest
import torch

import regard
from regard.errors import InputError
from regard.tracing import knock_out
from regard.tracing.inputs.example import prepare_example, run_forward, trace_example
from studies.tiny_models import reader, tokenizer, translator, writer

TEXT = "we love tea"


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_decoder_without_a_target_follows_what_it_writes_by_itself(recurrent: bool) -> None:
    model = translator(recurrent)
    example = prepare_example(model, tokenizer(), TEXT)
    ids = tokenizer()(TEXT, return_tensors="pt")["input_ids"]
    written = model.generate(ids, num_beams=1)[0]
    assert example.decodes
    assert example.written is not None
    assert example.written.tolist() == written.tolist()[1:]
    assert example.arguments["decoder_input_ids"][0].tolist() == written.tolist()[:-1]
    logits = run_forward(model, example.arguments)
    assert logits[0].argmax(-1).tolist() == example.written.tolist()


def test_a_decoder_follows_a_target() -> None:
    example = prepare_example(translator(), tokenizer(), TEXT, target="you see")
    assert example.written is not None
    assert example.written.tolist() == tokenizer()("you see")["input_ids"]


def test_what_a_given_decoder_input_leads_to_is_not_known() -> None:
    ids = torch.tensor([[5, 6, 7]])
    example = prepare_example(translator(), None, {"input_ids": ids, "decoder_input_ids": ids})
    assert example.decodes
    assert example.written is None


@pytest.mark.parametrize("make", [reader, writer])
def test_a_model_of_one_stream_reads_its_text(make) -> None:
    example = prepare_example(make(), tokenizer(), TEXT)
    assert not example.decodes
    assert example.held == "input_ids"
    assert example.tokens is not None
    assert list(example.tokens.ids or ()) == tokenizer()(TEXT)["input_ids"]


def test_a_picture_holds_no_tokens() -> None:
    pixels = {"pixel_values": torch.rand(1, 3, 8, 8)}
    sizes = {"d_model": 12, "layers": 1, "heads": 2, "d_ff": 13, "image_size": 8, "patch": 4}
    example = prepare_example(regard.Transformer(kind="vision", **sizes), None, pixels)
    assert (example.held, example.tokens) == (None, None)


def test_what_is_looked_at_is_what_capture_sees_and_the_output_is_the_model_s() -> None:
    model = writer()
    example = prepare_example(model, tokenizer(), TEXT)
    output, trace = trace_example(model, example, keep="dense")
    expected = regard.capture(model, tokenizer(), TEXT, keep="dense")
    assert trace.streams == expected.streams
    for each, same in zip(trace, expected, strict=True):
        torch.testing.assert_close(each.weights(), same.weights())
    torch.testing.assert_close(output, run_forward(model, example.arguments))


def test_an_edit_changes_the_output_and_the_mode_of_a_model_is_left_alone() -> None:
    model = writer().train()
    example = prepare_example(model, tokenizer(), TEXT)
    plain = run_forward(model, example.arguments)
    edited = run_forward(model, example.arguments, edit=knock_out("*.0.attention"))
    assert model.training
    assert not plain.requires_grad
    assert not torch.allclose(plain, edited)


def test_a_batch_is_refused() -> None:
    with pytest.raises(InputError, match="expected one example, got a batch of 2"):
        prepare_example(writer(), None, {"input_ids": torch.tensor([[5, 6], [7, 8]])})


@pytest.mark.usefixtures("unchecked")
def test_the_order_of_arguments_is_told_to_who_mixes_it_up() -> None:
    with pytest.raises(InputError, match="the order is model, processor, inputs"):
        prepare_example(tokenizer(), writer(), TEXT)  # type: ignore[arg-type]
