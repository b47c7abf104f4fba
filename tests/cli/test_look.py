import pytest

from regard.models import Recurrent, Tokenizer
from regard.models.generation import Settings

LINES = ["I love you", "我爱你", "we love tea", "我们爱茶"] * 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A translator with random weights: what it writes is nonsense, but it looks somewhere."""
    tokenizer = Tokenizer.train(LINES, "bpe", 320, chinese="character")
    model = Recurrent(vocab=len(tokenizer), d_embed=7, hidden=10, dropout=0.0).eval()
    model.tokenizer = tokenizer
    model.generation = Settings().updated(
        decoder_start_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        max_new_tokens=5,
    )
    place = tmp_path_factory.mktemp("look") / "model"
    model.save_pretrained(place)
    return str(place)


@pytest.mark.parametrize("view", ["heatmap", "highlight", "flow", "heads"])
def test_every_view_is_drawn_in_the_terminal(run, folder, view):
    result = run("look", "I love you", "--model", folder, "--view", view)
    assert result.exit_code == 0
    assert "I love you → " in result.stdout
    assert "love" in result.stdout or view == "heads"


def test_a_page_is_written_where_it_is_asked_for(run, folder, tmp_path):
    page = tmp_path / "page.html"
    result = run("look", "I love you", "--model", folder, "--out", str(page))
    assert (result.exit_code, result.stdout.strip()) == (0, str(page))
    assert page.stat().st_size > 50_000


def test_the_caption_is_in_the_language_that_is_asked_for(run, folder):
    assert "颜色" in run("look", "I love you", "--model", folder, "--lang", "zh").stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["  "], "there is no text to look at"),
        (["a", "--layer", "7"], "no layer 7; there are layers 0 to 0"),
        (["a", "--head", "7"], "no head 7"),
        (["a", "--out", "x.doc"], "cannot save a view as 'x.doc'"),
        (["a", "--view", "highlight", "--query", "zebra"], "no row"),
    ],
)
def test_bad_input_is_one_sentence(run, folder, args, said):
    result = run("look", *args, "--model", folder)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_without_a_shipped_model_one_must_be_named(run, monkeypatch):
    monkeypatch.setattr("regard.cli.look.shipped", lambda: ())
    result = run("look", "I love you")
    assert result.exit_code == 2
    assert "name one with --model" in result.stderr
