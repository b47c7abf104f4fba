"""The public readers as the campaign of files calls them, and what is done with what they return.

Each function takes the mutated file or folder. It returns, or raises a RegardError; what it returns
is also used, because a wrong value may only show where it is drawn, saved or run.
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import regard
from regard.cli.task_results import read_records
from regard.loading import (
    ModelDescription,
    describe_model,
    find_models,
    is_picture,
    load,
    page_picture,
    read_picture,
)
from regard.loading.pictures import PixelReader
from regard.loading.sounds import read_sound
from regard.measures import read_gold_links
from regard.models import Config, GenerationSettings, Pretrained, Tokenizer, from_pretrained
from regard.models.text_explanation import TextExplanation, explain_text
from regard.models.tokenizers import TokenizerPair
from regard.models.word_vectors import read_word_vectors
from regard.storage import is_trace_file, load_trace, save_trace
from regard.studies import read_sentence_pairs
from regard.studies.survey import load_survey, save_survey, survey
from regard.studies.survey.state import StateFile
from regard.tasks.knowledge.base import open_base
from regard.tasks.knowledge.entries import read_base
from regard.training.checkpoints import (
    average_weights,
    checkpoints,
    load_checkpoint,
    save_checkpoint,
)
from regard.training.corpora import bar_separated_pairs, pairs, texts
from regard.training.corpus_file import CorpusFile
from regard.training.labelled_texts import LabelledFiles
from regard.training.matches import MatchFiles
from regard.training.questions import QuestionFiles
from regard.training.recipe_file import load_recipe
from regard.training.summaries import SummaryFiles, has_summaries
from regard.training.train import train, write_finished_model
from regard.types import Trace
from regard.views import View, ViewState, figure, overlay, view
from regard.views.page import write_page
from regard.views.scene import unpack_scene
from regard.views.survey_table import survey_page
from regard.views.table import Table

VIEW_SUFFIXES = (".html", ".htm", ".json", ".png", ".svg", ".pdf")
TRACE_SUFFIXES = (".trace", ".safetensors")
SURVEY_SUFFIXES = (".csv", ".json", ".html", *((".parquet",) if find_spec("pyarrow") else ()))
VIEW_KINDS = ("heads", "heatmap", "highlight", "flow", "overlay", "compare")

# What the functions below call. tests/fuzz/test_coverage.py compares these lists with what regard
# has, so that a new reader or exporter is called here too.
READERS: tuple[Callable[..., Any], ...] = (
    CorpusFile, LabelledFiles, MatchFiles, QuestionFiles, SummaryFiles, PixelReader.for_model,
    Pretrained.from_pretrained,
    StateFile.load, Tokenizer.load, View.load, ViewState.from_hash, ViewState.from_json,
    average_weights, bar_separated_pairs,
    checkpoints, describe_model, explain_text, find_models, from_pretrained, has_summaries,
    is_picture, is_trace_file, open_base, read_base,
    load, load_checkpoint, load_recipe, load_survey, load_trace, overlay,
    page_picture, pairs, read_picture, read_sentence_pairs, read_sound, read_word_vectors, survey,
    texts, train,
    view, Config.from_json, GenerationSettings.from_json, read_gold_links, unpack_scene,
)  # fmt: skip
EXPORTERS: tuple[Callable[..., Any], ...] = (
    Config.to_json, GenerationSettings.to_json, ModelDescription.to_json,
    Pretrained.save_pretrained, Table.save, TextExplanation.to_json, Tokenizer.save,
    TokenizerPair.save, View.save, ViewState.to_hash, ViewState.to_json, save_checkpoint,
    save_survey, save_trace, write_finished_model, write_page, figure.write,
)  # fmt: skip


def read_model(folder: Path, random: Random) -> None:
    """A model folder by one of the functions that take it; a loaded model is saved again."""
    choice = random.randrange(5)
    if choice == 0:
        describe_model(folder).to_json()
        find_models(folder.parent)
    elif choice == 1:
        read_tokenizer(folder, random)
    elif choice == 2:
        load_model(folder, random)
    else:
        precision = random.choice(("float", "float", "int8"))
        model = from_pretrained(folder, precision=precision)
        if precision == "float":
            model.save_pretrained("again")
            from_pretrained("again")


def load_model(folder: Path, random: Random) -> None:
    """A model folder by `regard.load`, which also tries transformers."""
    loaded = load(folder, device="cpu")
    repr(loaded)
    # a model of transformers may fail as it likes in Python; in a command it may not
    if random.random() < 0.3 and loaded.native and loaded.processor is not None:
        generate = {"max_new_tokens": 2} if loaded.translates or loaded.continues else None
        regard.capture(loaded.model, loaded.processor, "I love you", generate=generate)


def read_vision_model(folder: Path, random: Random) -> None:
    """The folder of a model that sees, and what makes its pixels."""
    loaded = load(folder, device="cpu")
    if random.random() < 0.5 and loaded.native:
        PixelReader.for_model(folder, loaded.model.config, None)
    if random.random() < 0.5 and isinstance(loaded.processor, PixelReader):
        generate = {"max_new_tokens": 2} if loaded.translates else None
        image = read_picture(Path("picture.png"))
        regard.capture(loaded.model, loaded.processor, image, generate=generate)


def read_tokenizer(folder: Path, random: Random) -> None:
    """A folder's tokenizer, which then splits a text, joins it and is saved."""
    tokenizer = Tokenizer.load(folder)
    tokenizer.decode(tokenizer(["I love you", "我"], padding=False)["input_ids"][0])
    tokenizer.save("tokenizer")
    Tokenizer.load("tokenizer")


def read_pairs(path: Path, random: Random) -> None:
    """A file of pairs, also as a corpus of a survey."""
    list(pairs(path))
    list(CorpusFile(path, pairs=True))
    list(CorpusFile(path))


def read_bars(path: Path, random: Random) -> None:
    """A file of pairs with bars between."""
    list(bar_separated_pairs(path))
    list(CorpusFile(path, pairs=True))


def read_sides(path: Path, random: Random) -> None:
    """Two parallel files."""
    list(pairs((path, "side.zh")))


def read_texts(path: Path, random: Random) -> None:
    """A file of texts, by paragraphs and by lines."""
    list(texts(path))
    list(CorpusFile(path, paragraphs=random.random() < 0.5))


def read_questions(path: Path, random: Random) -> None:
    """A file of questions with their contexts, as `regard answer` and training read it."""
    read_records(path, ["question", "context"])
    list(QuestionFiles((path,)))


def read_matches(path: Path, random: Random) -> None:
    """A file of questions with right and wrong entries."""
    list(MatchFiles((path,)))


def read_summaries(path: Path, random: Random) -> None:
    """A file of texts with their summaries."""
    has_summaries(path)
    list(SummaryFiles((path,)))


def read_knowledge(path: Path, random: Random) -> None:
    """A knowledge base, and its index, which is made twice: the second time it may be stored."""
    read_base(path)
    for _ in range(2):
        open_base(path).search("Who do you love? 我爱谁？", 3)


def read_labels(path: Path, random: Random) -> None:
    """A file of texts with their labels."""
    list(LabelledFiles((path,)))


def read_links(path: Path, random: Random) -> None:
    """Sentence pairs with their links."""
    first, reverse = random.choice((0, 1)), random.random() < 0.3
    for pair in read_sentence_pairs(path, first=first, reverse=reverse):
        pair.text(0), pair.text(1)


def read_links_beside_words(path: Path, random: Random) -> None:
    """Links whose words are in another file."""
    read_sentence_pairs(path, Path("bars.txt"), first=random.choice((0, 1)))


def read_trace(path: Path, random: Random) -> None:
    """A trace, which is then drawn in one way and saved in another."""
    is_trace_file(path)
    trace = load_trace(path, verify=random.random() < 0.5)
    repr(trace)
    save_trace(trace, f"again{random.choice(TRACE_SUFFIXES)}")
    load_trace(next(Path().glob("again.*")))
    choice = random.random()
    if choice < 0.3:
        regard.diagnose([trace])
    elif choice < 0.4:
        regard.report([trace], regard.diagnose([trace])).save("report.html")
    else:
        _draw(trace, random)


def _draw(trace: Trace, random: Random) -> None:
    """A view of a trace, in the terminal and in a file."""
    kind, head = random.choice(VIEW_KINDS), random.choice((None, None, 0))
    if kind == "compare":
        _show(regard.compare(trace, trace, head=head), random)
    elif kind == "overlay":
        _show(overlay(trace, Path("picture.png"), head=head), random)
    else:
        _show(view(trace, kind, head=head), random)


def _show(shown: View, random: Random) -> None:
    """A view as text, or as a file of one of the suffixes."""
    if random.random() < 0.4:
        str(shown)
        repr(shown)
    else:
        shown.save(f"drawn{random.choice(VIEW_SUFFIXES)}")


def read_view(path: Path, random: Random) -> None:
    """A saved view, which is then shown."""
    loaded = View.load(path)
    ViewState.from_hash(loaded.state.to_hash())
    _show(loaded, random)


def read_survey(path: Path, random: Random) -> None:
    """A saved survey, which is then saved in another format."""
    table = load_survey(path)
    repr(table)
    suffix = random.choice(SURVEY_SUFFIXES)
    if suffix == ".html":
        survey_page(table, "model").save("again.html")
    else:
        load_survey(save_survey(table, f"again{suffix}"))


def continue_survey(path: Path, random: Random) -> None:
    """A survey that goes on from its state."""
    model = from_pretrained("translator")
    survey(model, model.tokenizer, CorpusFile(Path("pairs.tsv"), pairs=True), state=path)


def read_image(path: Path, random: Random) -> None:
    """A picture, and the file of it that a page shows."""
    is_picture(path)
    read_picture(path)
    page_picture(path, None)
    _show(overlay(load_trace("vision.trace"), picture=page_picture(path, None)), random)


def read_talk(path: Path, random: Random) -> None:
    """A sound, at the rate of speech models."""
    read_sound(path, random.choice((8_000, 16_000)))


def read_vectors(path: Path, random: Random) -> None:
    """A file of word vectors, and an explanation with them."""
    read_word_vectors(path, ["I", "you"])
    explain_text("I love", vectors=path).to_json()


def name_mechanism(path: Path, random: Random) -> None:
    """The mechanism of a name."""
    name = path.read_text(encoding="utf-8", errors="surrogateescape") if path.is_file() else ""
    explain_text("I love you", mechanism=name.strip())


def read_recipe(folder: Path, random: Random) -> None:
    """A recipe."""
    load_recipe(folder / "recipe.toml")


def train_recipe(folder: Path, random: Random) -> None:
    """A recipe whose training goes on."""
    train(folder / "recipe.toml", device="cpu")


def resume_training(folder: Path, random: Random) -> None:
    """The checkpoints of a run, and its training, which goes on from the newest."""
    for path in checkpoints(folder / "run" / "checkpoints"):
        load_checkpoint(path)
    train_recipe(folder, random)
