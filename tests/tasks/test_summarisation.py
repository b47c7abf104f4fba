"""`summarise` gives what the model writes, what it copied, and how the text was covered."""

import pytest
import torch

import regard
from regard.errors import InputError
from regard.loading.abilities import abilities_of_native_model
from regard.models import PointerGenerator, Tokenizer
from regard.tasks.summarisation import restore_case
from tasks.tiny_models import a_classifier, loaded
from tracing import readers

TEXT = "The new tool is called Zorbly. It reads NASA files."


@pytest.fixture(scope="module")
def model():
    """A pointer-generator that copies the text from its beginning, word by word."""
    torch.manual_seed(1)
    tokenizer = Tokenizer.train(
        ["the new tool is called . it reads files", "a b c"],
        "word",
        30,
        punctuation=True,
        lower=True,
    )
    network = PointerGenerator(vocab=len(tokenizer), d_embed=8, hidden=12, max_positions=20)
    network.gate.bias.data.fill_(-9.0)  # always copies
    network.tokenizer = tokenizer
    network.generation = network.generation.replace(
        decoder_start_token_id=tokenizer.bos_token_id,
        eos_token_id=(tokenizer.eos_token_id,),
        pad_token_id=tokenizer.pad_token_id,
        max_new_tokens=4,
        no_repeat_ngram_size=1,
    )
    able = abilities_of_native_model(network)
    return regard.LoadedModel(
        "tiny", network.eval(), tokenizer, True, **able._asdict(), context_length=20
    )


def test_a_summary_consists_of_words_of_its_text_where_all_are_copied(model):
    result = regard.summarise(TEXT, model)
    words = result.answer.lower().split()
    assert all(word.strip(".") in TEXT.lower() for word in words)
    assert result.copied == 1.0
    assert result.to_json()["summary"] == result.answer
    assert result.score == pytest.approx(result.candidates[0].score)


def test_the_picture_shades_the_text_and_marks_what_was_copied(model):
    result = regard.summarise(TEXT, model)
    tokens = result.trace.tokens(result.trace[result.evidence.site].columns)
    marked = {tokens.texts[place] for place in result.evidence.marked}
    written = result.trace.tokens(result.trace[result.evidence.site].produced).texts
    assert marked <= set(written)
    assert "copied" in str(regard.view(result).scene)
    assert "reader" in repr(regard.view(result, "heatmap"))


def test_a_list_gives_a_list_in_order_with_unknown_words_of_each(model):
    results = regard.summarise([TEXT, "a b zub"], model, trace=False)
    assert [result.inputs["text"] for result in results] == [TEXT, "a b zub"]
    alone = regard.summarise("a b zub", model, trace=False)
    assert results[1].answer == alone.answer
    assert results[1].copied is None


def test_a_long_text_is_read_in_windows_each_with_its_own_summary(model):
    text = " ".join(f"The new tool {name} reads it." for name in ("zub", "wof", "yiv", "pux"))
    result = regard.summarise(text, model)
    assert len(result.windows) > 1
    assert result.windows[-1].stop == len(text)
    assert all(window.trace is not None for window in result.windows)


def test_any_model_of_transformers_that_writes_about_a_text_is_taken():
    import transformers as hf

    vocab = len(readers.word_piece())
    config = hf.T5Config(
        vocab_size=vocab,
        d_model=16,
        d_kv=4,
        d_ff=24,
        num_layers=1,
        num_heads=2,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
    )
    torch.manual_seed(2)
    t5 = loaded(hf.T5ForConditionalGeneration(config), context_length=31)
    result = regard.summarise("the cat sat on the mat", t5, max_new_tokens=5, min_new_tokens=3)
    assert result.task == "summarisation"
    assert len(result.windows) == 1


@pytest.mark.parametrize(
    ("summary", "text", "expected"),
    [
        ("bleu of gpt-4", "We report BLEU. GPT-4 wins over GPT-4.", "BLEU of GPT-4"),
        ("the parser", "The parser is new.", "The parser"),
        ("all lower", "nothing here", "all lower"),
        ("Has Capitals", "has CAPITALS", "Has Capitals"),
    ],
)
def test_words_get_the_capitals_that_they_have_in_the_text(summary, text, expected):
    assert restore_case(summary, text) == expected


def test_a_model_that_does_not_write_and_an_empty_text_are_refused(model):
    with pytest.raises(InputError, match="writes no text about another one"):
        regard.summarise("I love you", a_classifier())
    with pytest.raises(InputError, match="a text is empty"):
        regard.summarise(" ", model)
    with pytest.raises(InputError, match="leave num_return_sequences"):
        regard.summarise(TEXT, model, num_beams=2, num_return_sequences=2)
