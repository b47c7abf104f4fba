"""Doors of the command line: each command gets the text in its arguments, files and names.

A command may refuse the text with one line and exit code 2. It must not end with another exception,
and neither stdout nor stderr may hold a control character of the text. The models of `translate`
and `generate` are replaced by one that writes the text, so that no weights are needed.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from click.testing import CliRunner, Result

from fuzz import text_checks as checks
from fuzz.text_doors import Door, hostile_trace
from regard.cli import main
from regard.models.generation.settings import GenerationSettings
from regard.storage import save_trace
from regard.types import Candidate, Evidence, InputWindow, TaskResult
from regard.types.task_result import TaskName

__all__ = ["COMMAND_DOORS"]

_LONGEST_ARGUMENT = 60_000  # characters; a process cannot be given longer ones
_LONGEST_NAME = 60  # characters of a file's name, of at most four bytes each
_ENVIRONMENT = {"COLUMNS": "100", "LANG": "C", "NO_COLOR": "1", "REGARD_LANG": None}
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def _run(*arguments: str, codes: tuple[int, ...] = (0, 2)) -> Result:
    """Run a command without colours and check both of its streams and its exit code."""
    given = [argument[:_LONGEST_ARGUMENT] for argument in arguments]
    # color=True: click must not remove escape sequences that we failed to replace
    result = CliRunner().invoke(main, given, env=_ENVIRONMENT | _OFFLINE, color=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code not in codes:
        raise ValueError(f"exit code {result.exit_code}: {result.stderr[-300:]!a}")
    checks.check_terminal(result.stdout)
    checks.check_terminal(result.stderr)
    if result.exit_code == 2 and result.stderr.rstrip("\n").count("\n"):
        raise ValueError(f"an error of several lines: {result.stderr[:300]!a}")
    return result


def _run_json(text: str, *arguments: str) -> None:
    """Run a command with --json; what it prints holds the text."""
    checks.check_json(_run(*arguments, "--json", codes=(0,)).stdout, text)


def _file_name(text: str) -> str:
    """The text as the name of a file, without what no name can hold."""
    name = re.sub("[/\0\ud800-\udfff]", "_", text)[:_LONGEST_NAME]
    return f"f{name}"


def _argument(text: str) -> str:
    """The text as an argument of a process: no NUL, and only surrogates that stand for bytes."""
    return re.sub("[\0\ud800-\udc7f\udd00-\udfff]", "_", text)


def _trace_file(text: str, folder: Path) -> str:
    """A file of a trace that holds the text, and has it in its name."""
    path = folder / f"{_file_name(text)}.trace"
    save_trace(hostile_trace(text), path)
    return str(path)


def _look(text: str, folder: Path) -> None:
    """Draw a trace, print it as JSON, write a page with the text in its name, name sites."""
    trace, page = _trace_file(text, folder), str(folder / f"{_file_name(text)}.html")
    for kind in ("heatmap", "flow", "highlight", "heads"):
        _run("look", trace, "--view", kind, codes=(0,))
    _run_json(text, "look", trace)
    _run("look", trace, "--out", page, codes=(0,))
    for option in ("--layer", "--query", "--view", "--out"):
        _run("look", trace, option, _argument(text) or "x")
    _run("look", f"x{_argument(text)}.trace")


def _explain(text: str, folder: Path) -> None:
    """Explain a text of few words with the text as one of them, and as options."""
    words = f"a {_argument(text)[:200]} b"
    _run("explain", words)
    _run("explain", words, "--json")
    _run("explain", "a b", "--query", _argument(text))
    _run("explain", "a b", "--vectors", str(folder / _file_name(text)))


def _mechanisms(text: str, folder: Path) -> None:
    """Name a mechanism, a language and an option that are not there."""
    _run("mechanisms", "--", _argument(text))
    _run("mechanisms", "--lang", _argument(text))
    _run("mechanisms", f"--{_argument(text)}")


class _Writer:
    """A model that writes one text whatever it reads."""

    def __init__(self, text: str) -> None:
        self.text, self.tokenizer, self.generation = text, self, GenerationSettings()

    def encode(self, text: str) -> list[int]:
        """One token."""
        return [0]

    def decode(self, ids: Any, **_: Any) -> str:
        """The text."""
        return self.text

    def generate(self, _: object, inputs: list[Any], **settings: Any) -> Any:
        """One sequence for each input, with scores."""
        return _Sequences([[0]] * len(inputs))

    def stream(self, *_: Any, **__: Any) -> Iterator[str]:
        """The text character by character, or all of a long one at once."""
        return iter(self.text if len(self.text) < 1000 else [self.text])


class _Sequences(list[Any]):
    """Sequences with their scores."""

    @property
    def scores(self) -> Any:
        """A score for each."""
        return SimpleNamespace(tolist=lambda: [-0.5] * len(self))


@contextmanager
def _served(command: str, text: str) -> Iterator[None]:
    """Let a command write the text instead of loading a model."""
    writer = _Writer(text)
    loaded = SimpleNamespace(model=writer)
    with (
        patch(f"regard.cli.{command}.load_writer", lambda *_, **__: loaded),
        patch("regard.models.generation.generate", writer.generate),
        patch("regard.models.generation.stream", writer.stream),
    ):
        yield


def _write(command: str) -> Door:
    """The door of a command that writes texts."""

    def run(text: str, folder: Path) -> None:
        """Print the text, as JSON, and with its name in --out."""
        with _served(command, text):
            _run(command, "a", "--model", "m", codes=(0,))
            _run(command, "--model", "m", "--", f"a{_argument(text)}")
            _run_json(text, command, "a", "--model", "m")
            out = folder / f"{_file_name(text)}.txt"
            if not any("\ud800" <= character <= "\udfff" for character in text):
                _run(command, "a", "--model", "m", "--beam", "1", "--out", str(out), codes=(0,))
        _run(command, "a", "--file", str(folder / f"none{_file_name(text)}"))
        _run(command, "a", "--beam", _argument(text))

    return run


def _train(text: str, folder: Path) -> None:
    """Name a recipe, change a key, and give a recipe with the text in it."""
    recipe = folder / f"{_file_name(text)}.toml"
    _run("train", str(recipe))
    recipe.write_text(f"[model]\nkind = {json.dumps(text[:1000])}\n", "utf-8")
    _run("train", str(recipe))
    _run("train", str(recipe), "--set", _argument(text))


def _evaluate(text: str, folder: Path) -> None:
    """Name data that are not there, and give data with the text in a file of that name."""
    data = folder / f"{_file_name(text)}.tsv"
    _run("evaluate", "en-zh-transformer", str(data))
    data.write_text(text[:1000], "utf-8", errors="replace")
    _run("evaluate", "en-zh-transformer", str(data), "--language", _argument(text))


def _diagnose(text: str, folder: Path) -> None:
    """Diagnose a trace: findings, one sentence each, JSON, and a page."""
    trace = _trace_file(text, folder)
    _run("diagnose", trace, codes=(0,))
    _run("diagnose", trace, "--short", codes=(0,))
    _run("diagnose", trace, "--out", str(folder / f"{_file_name(text)}.html"), codes=(0,))
    _run_json(Path(trace).name, "diagnose", trace)
    _run("diagnose", trace, "--expect", _argument(text))


def _survey(text: str, folder: Path) -> None:
    """Name a corpus and a file that are not there."""
    corpus = str(folder / f"{_file_name(text)}.txt")
    _run("survey", "en-zh-transformer", corpus)
    _run("survey", "en-zh-transformer", corpus, "--out", f"{corpus}.csv/{_file_name(text)}.csv")


def _model_folder(text: str, folder: Path) -> Path:
    """A folder with the text in its name, its configuration and its card."""
    model = folder / _file_name(text)
    model.mkdir(exist_ok=True)
    config = {"model_type": text, "architectures": [text], "_class_name": text, "hidden_size": 8}
    (model / "config.json").write_text(json.dumps(config), "utf-8")
    card = f"# {text}\n| metric | value |\n| --- | --- |\n| {text} | 1 |\n"
    (model / "README.md").write_text(card, "utf-8", errors="replace")
    return model


def _models(text: str, folder: Path) -> None:
    """List a folder with a model that holds the text, as a table and as JSON."""
    model = _model_folder(text, folder)
    (folder / "other").mkdir(exist_ok=True)
    (folder / "other" / "config.json").write_text("{}")
    _run("models", str(folder))
    _run("models", str(model))
    if text:
        _run_json(text, "models", str(folder))
    _run("models", str(folder / f"none{_file_name(text)}"))


def _info(text: str, folder: Path) -> None:
    """Describe a trace and a model that hold the text, and a name that is not there."""
    trace = _trace_file(text, folder)
    _run("info", trace, codes=(0,))
    _run_json(text, "info", trace)
    _run("info", str(_model_folder(text, folder)))
    _run("info", str(folder / f"none{_file_name(text)}"))


def _hostile_result(task: TaskName, text: str) -> TaskResult:
    """The result of a task with the text as its answer, as an alternative, and in its trace."""
    trace = hostile_trace(text)
    candidates = (Candidate(text, 0.75), Candidate(f"not {text}", 0.25))
    evidence = Evidence(trace.maps[0].site, (0,), (1,))
    window = InputWindow(0, 1, trace)
    return TaskResult(task, text, {"text": "a"}, candidates, (window,), 0, evidence, text)


def _run_task(command: str, task: TaskName, *options: str) -> Door:
    """The door of a command that runs a task, whose model answers the text."""

    def run(text: str, folder: Path) -> None:
        """Draw and print the result, as JSON, as a page, and with the text in the arguments."""
        result, page = _hostile_result(task, text), str(folder / f"{_file_name(text)}.html")
        with (
            patch("regard.tasks.models.task_model", lambda *_, **__: None),
            patch(f"regard.tasks.{command}", lambda texts, *_, **__: [result] * len(texts)),
        ):
            _run(command, "a", *options, codes=(0,))
            _run(command, *options, "--", f"a{_argument(text)}")
            _run_json(text, command, "a", *options)
            _run(command, "a", *options, "--out", page, codes=(0,))
        _run(command, "a", *options, "--file", str(folder / f"none{_file_name(text)}"))

    return run


def _run_sense(command: str, task: TaskName, *options: str) -> Door:
    """The door of a command that reads files one by one, whose model answers the text."""

    def run(text: str, folder: Path) -> None:
        """Draw and print the result, as JSON, as a page, and with the text in the arguments."""
        result, page = _hostile_result(task, text), str(folder / f"{_file_name(text)}.html")
        with (
            patch("regard.tasks.models.named_model", lambda *_, **__: None),
            patch(f"regard.tasks.{command}", lambda *_, **__: result),
        ):
            _run(command, "a", *options, codes=(0,))
            _run(command, "--", f"a{_argument(text)}", *options)
            _run_json(text, command, "a", *options)
            _run(command, "a", *options, "--out", page, codes=(0,))

    return run


COMMAND_DOORS: dict[str, Door] = {
    "look": _look,
    "explain": _explain,
    "mechanisms": _mechanisms,
    "classify": _run_task("classify", "classification"),
    "answer": _run_task("answer", "answering", "--context", "a b"),
    "summarise": _run_task("summarise", "summarisation"),
    "recognise": _run_sense("recognise", "recognition"),
    "transcribe": _run_sense("transcribe", "transcription"),
    "translate": _write("translate"),
    "generate": _write("generate"),
    "train": _train,
    "evaluate": _evaluate,
    "diagnose": _diagnose,
    "survey": _survey,
    "models": _models,
    "info": _info,
}
