"""What the campaign of files mutates: each file that regard reads, who reads it, in which command.

A new reader, exporter or command is added here; tests/fuzz/test_coverage.py fails until it is.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

from fuzz import reading
from fuzz.samples import PICTURES
from fuzz.surface import qualified_name

__all__ = ["SUBJECTS", "Subject", "covered", "subjects_here"]

Read = Callable[[Path, Random], Any]


@dataclass(frozen=True)
class Subject:
    """A file of the samples, its format, the functions that read it, and commands that do.

    `root` is the file or folder of the samples that a case copies, and `file` the mutated file in
    it ("" if `root` is the file itself). `commands` are command lines in which {} is the copy;
    with a `<` at the end the copy is stdin, and {text} is its text. `beside` is linked next to the
    copy. `written` begins the names that a reader may write, as it does in a run folder. Of the
    cases, each subject gets a share by its `weight`.
    """

    name: str
    root: str
    file: str
    form: str
    read: Read
    commands: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    written: str = "(nothing)"
    weight: int = 2
    needs: str = ""


_TEXT = "I_love_you"  # an argument of a command line, which is split at its blanks
_WRITER = f"translate {_TEXT} --model {{}} --max-length 3 --quiet"
_TELLER = f"generate {_TEXT} --model {{}} --max-length 7 --quiet"
_LOOK = f"look {_TEXT} --model {{}} --new 2 --quiet"
_CHECK = f"diagnose {{}} {_TEXT} --quiet"
_DESCRIBE = ("info {}", "info {} --json", "models {}")
_SEE = "look picture.png --model {} --quiet"

_MODEL_FILES = {
    "config.json": "json",
    "generation_config.json": "json",
    "tokenizer.json": "json",
    "tokenizer_config.json": "json",
    "model.safetensors": "safetensors",
}
_TRACE_COMMANDS = (
    "info {}", "info {} --json", "look {} --json", "diagnose {} --quiet", "look {} --out a.html",
    "look {} --view flow", "look {} --view highlight", "look {} --out a.svg",
)  # fmt: skip


def _own_models() -> Iterator[Subject]:
    """The files of models of our own classes."""
    commands = {
        "translator": (_WRITER, _LOOK, _CHECK, f"{_WRITER} --int8", *_DESCRIBE),
        "recurrent": (_WRITER, _LOOK, *_DESCRIBE),
        "decoder": (_TELLER, f"{_TELLER} --int8", *_DESCRIBE),
        "classifier": (f"classify {_TEXT} --model {{}}", _LOOK, *_DESCRIBE),
        "reader": (f"answer {_TEXT} --context {_TEXT} --model {{}}", *_DESCRIBE),
    }
    for name, lines in commands.items():
        files = dict(_MODEL_FILES)
        if name == "translator":
            files["target_tokenizer.json"] = "json"
        for file, form in files.items():
            weight = 4 if file in ("config.json", "generation_config.json") else 2
            read = reading.read_model
            yield Subject(f"{name}/{file}", name, file, form, read, lines, weight=weight)


def _adapted_model() -> Iterator[Subject]:
    """The files of a model that is stored as a difference to the classifier."""
    lines = (f"classify {_TEXT} --model {{}}", *_DESCRIBE)
    for file, form, weight in (("config.json", "json", 4), ("model.safetensors", "safetensors", 2)):
        yield Subject(
            f"adapted/{file}", "adapted", file, form, reading.read_model, lines,
            beside=("classifier",), weight=weight,
        )  # fmt: skip


def _knowledge_bases() -> Iterator[Subject]:
    """Files of triples; the index is written beside them."""
    lines = (f"answer {_TEXT} --base {{}}", f"answer {_TEXT} --base {{}} --json --must-answer")
    for name, form in (("facts.tsv", "lines"), ("facts.jsonl", "json lines")):
        yield Subject(
            name, name, "", form, reading.read_knowledge, lines, written=".", weight=4,
            needs="bm25s",
        )  # fmt: skip


def _vision_models() -> Iterator[Subject]:
    """The files of models that see pictures."""
    files = {"config.json": "json", "preprocessor_config.json": "json"}
    files["model.safetensors"] = "safetensors"
    for name, needs in (("vision", ""), ("captioner", ""), ("vit", "transformers")):
        for file, form in files.items():
            read, lines = reading.read_vision_model, (_SEE, *_DESCRIBE)
            beside = ("picture.png",)
            label = f"{name}/{file}"
            yield Subject(label, name, file, form, read, lines, beside=beside, needs=needs)


def _converted_models() -> Iterator[Subject]:
    """The files of families of transformers, and of a model that only transformers loads."""
    lines = {
        "gpt2": (_TELLER, *_DESCRIBE),
        "llama": (_TELLER, *_DESCRIBE),
        "marian": (_WRITER, *_DESCRIBE),
        "bert": (_LOOK, *_DESCRIBE),
        "foreign": (_LOOK, _CHECK),
    }
    for name, commands in lines.items():
        for file, form in _MODEL_FILES.items():
            weight = 3 if file == "config.json" else 1
            if name == "bert" and file == "generation_config.json":
                continue
            read = reading.load_model if name == "foreign" else reading.read_model
            yield Subject(
                f"{name}/{file}", name, file, form, read, commands, weight=weight,
                needs="transformers",
            )  # fmt: skip


def _tokenizers() -> Iterator[Subject]:
    """The files of older layouts of tokenizers."""
    layouts = {
        "wordpiece/vocab.txt": "lines",
        "bytelevel/vocab.json": "json",
        "bytelevel/merges.txt": "lines",
        "pieces/source.spm": "bytes",
        "pieces/vocab.json": "json",
    }
    for name, form in layouts.items():
        folder, _, file = name.partition("/")
        yield Subject(name, folder, file, form, reading.read_tokenizer)


def _corpora() -> Iterator[Subject]:
    """Files of pairs, of texts and of alignments."""
    score = "evaluate translator {} --quiet --limit 2"
    count = "survey translator {} --quiet --limit 3"
    model = ("translator", "decoder", "classifier", "reader")
    for name, form, read, lines in (
        ("pairs.tsv", "lines", reading.read_pairs, (score, count)),
        ("pairs.jsonl", "json lines", reading.read_pairs, (score, count)),
        ("bars.txt", "lines", reading.read_bars, (score, count)),
        ("side.en", "lines", reading.read_sides, ()),
        ("texts.txt", "lines", reading.read_texts, (
            "evaluate decoder {} --quiet", "survey decoder {} --paragraphs --quiet --json",
            "translate --model translator --file {} --max-length 2 --quiet",
            "generate --model decoder --file {} --max-length 9 --quiet",
            "look --model decoder --file {} --limit 20", "diagnose decoder --file {} --quiet",
            "translate - --model translator --max-length 2 --quiet <", "explain - <",
            "classify --model classifier --file {}", "classify - --model classifier --json <",
            f"answer {_TEXT} --context {{}} --model reader",
        )),
        ("texts.jsonl", "json lines", reading.read_texts, (
            "survey decoder {} --quiet", "classify --model classifier --file {} --json",
        )),
        ("questions.jsonl", "json lines", reading.read_questions, (
            "answer --model reader --file {} --json", "evaluate reader {} --quiet",
        )),
        ("matches.tsv", "lines", reading.read_matches, ()),
        ("matches.jsonl", "json lines", reading.read_matches, ()),
        ("summaries.jsonl", "json lines", reading.read_summaries, (
            "evaluate translator {} --quiet", "summarise --model translator --file {} --json",
        )),
        ("labels.tsv", "lines", reading.read_labels, ("evaluate classifier {} --quiet",)),
        ("labels.jsonl", "json lines", reading.read_labels, ("evaluate classifier {} --json",)),
        ("gold.tsv", "lines", reading.read_links, (
            "evaluate translator pairs.tsv --gold {} --quiet --limit 2",
            "evaluate translator pairs.tsv --peaks {} --quiet --limit 2",
        )),
        ("links.txt", "lines", reading.read_links_beside_words, (
            "evaluate translator bars.txt --gold {} --quiet --limit 2",
        )),
    ):  # fmt: skip
        beside = ("pairs.tsv", "bars.txt", "side.zh", *model)
        others = tuple(other for other in beside if other != name)
        yield Subject(name, name, "", form, read, lines, beside=others, weight=4)


def _other_files() -> Iterator[Subject]:
    """Traces, views, surveys, pictures, word vectors and names."""
    for name in ("recomputed.trace", "dense.trace", "vision.trace"):
        yield Subject(
            name, name, "", "trace", reading.read_trace, _TRACE_COMMANDS, ("picture.png",),
            weight=12,
        )  # fmt: skip
    for name in ("view.json", "report.json"):
        yield Subject(name, name, "", "json", reading.read_view, weight=8)
    yield Subject("survey.json", "survey.json", "", "json", reading.read_survey, weight=6)
    yield Subject("survey.csv", "survey.csv", "", "lines", reading.read_survey, weight=6)
    yield Subject(
        "survey.parquet", "survey.parquet", "", "bytes", reading.read_survey, needs="pyarrow"
    )
    again = ("survey translator pairs.tsv --out survey.csv --quiet",)
    yield Subject(
        "survey.csv.state", "survey.csv.state", "", "json", reading.continue_survey, again,
        beside=("pairs.tsv", "translator"), written="survey.csv", weight=6,
    )  # fmt: skip
    for name in PICTURES:
        form = "png" if name.endswith(".png") else "bytes"
        looks = (
            "look {} --model vision --quiet", "look {} --model captioner --out a.html",
            "recognise {} --model vision --json", "recognise {} --model vision --out a.png",
        )  # fmt: skip
        beside = ("vision", "captioner", "vision.trace")
        yield Subject(name, name, "", form, reading.read_image, looks, beside, weight=3)
    yield Subject(
        "talk.wav", "talk.wav", "", "bytes", reading.read_talk, weight=4, needs="soundfile"
    )
    words = ("explain I_love_you --vectors {}", "explain I_love_you --vectors {} --json")
    yield Subject("vectors.txt", "vectors.txt", "", "lines", reading.read_vectors, words, weight=4)
    names = ("mechanisms {text}", "mechanisms {text} --json")
    yield Subject("name.txt", "name.txt", "", "lines", reading.name_mechanism, names, weight=2)


def _training() -> Iterator[Subject]:
    """A recipe, its corpus, and the folder of an unfinished run."""
    # a recipe may well ask for hours: what is long by its own words is made short
    short = "--set plan.steps=3 --set data.longest=20"
    train = (f"train {{}}/recipe.toml {short} --quiet",)
    root, run = "training", "training/run"
    yield Subject(
        "recipe.toml",
        root,
        "recipe.toml",
        "toml",
        reading.read_recipe,
        train,
        written=run,
        weight=10,
    )
    yield Subject(
        "training/pairs.tsv", root, "pairs.tsv", "lines", reading.train_recipe, train, written=run
    )
    steps = "run/checkpoints/step-00000002"
    for file, form, weight in (
        (f"{steps}/state.json", "json", 8),
        (f"{steps}/model.safetensors", "safetensors", 4),
        (f"{steps}/optimizer.safetensors", "safetensors", 4),
        ("run/tokenizer/tokenizer.json", "json", 3),
        ("run/tokenizer/tokenizer_config.json", "json", 3),
        ("run/tokenizer/target_tokenizer.json", "json", 2),
    ):
        yield Subject(
            f"training/{file}", root, file, form, reading.resume_training, train, written=run,
            weight=weight,
        )  # fmt: skip


SUBJECTS: tuple[Subject, ...] = (
    *_own_models(), *_adapted_model(), *_knowledge_bases(), *_vision_models(),
    *_converted_models(), *_tokenizers(), *_corpora(), *_other_files(), *_training(),
)  # fmt: skip


def subjects_here(*, light: bool) -> list[Subject]:
    """The subjects whose packages are installed; `light` ones need no package."""
    return [
        subject
        for subject in SUBJECTS
        if not subject.needs or (not light and find_spec(subject.needs))
    ]


def covered() -> frozenset[str]:
    """What this campaign covers of regard's surface, in the words of `fuzz.surface`."""
    commands = {line.split()[0] for subject in SUBJECTS for line in subject.commands}
    suffixes = (*reading.VIEW_SUFFIXES, *reading.TRACE_SUFFIXES, *reading.SURVEY_SUFFIXES)
    return frozenset(
        [f"reader:{qualified_name(reader)}" for reader in reading.READERS]
        + [f"exporter:{qualified_name(exporter)}" for exporter in reading.EXPORTERS]
        + [f"view:{kind}" for kind in reading.VIEW_KINDS]
        + [f"suffix:{suffix}" for suffix in (*suffixes, ".parquet")]
        + [f"command:{command}" for command in commands]
    )
