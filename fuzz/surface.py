"""What regard offers and must therefore be fuzzed, read from the package itself.

`missing_from` compares it with what the campaigns say that they cover: each campaign may have a set
COVERED with entries such as "reader:regard.storage.traces.load_trace", "exporter:...",
"view:heatmap", "suffix:.html" and "command:look".
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import regard
from regard.cli.look import _OUTPUTS as LOOK_SUFFIXES
from regard.cli.program import COMMANDS
from regard.studies.survey.files import SUFFIXES as SURVEY_SUFFIXES
from regard.views.kinds import KINDS

__all__ = ["EXCLUDED", "INNER_MODULES", "missing_from", "qualified_name", "surface"]

_READS = re.compile(r"load|read|open|from_(pretrained|json|hash|file)|unpack|restore")
_WRITES = re.compile(r"save|write|to_")
_TENSORS = "works on tensors or on a model in memory, not on a file"
_INNER = "is a step of another reader or exporter, which is fuzzed"
_LOADS = "loads a model by regard.load, which is fuzzed; the commands that call it are too"
_LOG = "writes a log of numbers; the crashes campaign kills training"
_VALUE = "keeps the name of a file, which it does not open"
_MEMORY = "turns a value in memory into another value, and writes nothing"

# Packages and modules without a reader or exporter of their own, each with the reason.
INNER_MODULES: dict[str, str] = {
    "regard.attention.": _TENSORS,
    "regard.documents.": _INNER,
    "regard.files.": "writes what its caller gives; the crashes campaign kills it",
    "regard.kernels.": "works on tensors; the kernels campaign calls it",
    "regard.loading.remote_code.": _INNER,
    "regard.masks.": _INNER,
    "regard.models.checkpoints.build_limits.": _INNER,
    "regard.models.checkpoints.differences.": _INNER,
    "regard.models.checkpoints.families.": _INNER,
    "regard.models.checkpoints.files.": _INNER,
    "regard.models.checkpoints.locations.": _INNER,
    "regard.models.checkpoints.parameter_mapping.": _INNER,
    "regard.models.checkpoints.stored_int8.": _INNER,
    "regard.models.recurrent.": _TENSORS,
    "regard.models.tokenizers.folders.": _INNER,
    "regard.models.tokenizers.sentencepiece.": _INNER,
    "regard.models.transformer.": _TENSORS,
    "regard.tasks.knowledge.index.": _INNER,
    "regard.tracing.": _TENSORS,
    "regard.views.encoding.": _INNER,
}

# Public functions that look like readers or exporters and are none, each with the reason.
EXCLUDED: dict[str, str] = {
    "regard.diagnosis.declarations.writes_alone": "a question about a model",
    "regard.loading.descriptions.is_model_folder": _INNER,
    "regard.measures.heads.HeadNumbers.to_pandas": _MEMORY,
    "regard.measures.roles.LeadingRoles.to_pandas": _MEMORY,
    "regard.models.text_explanation.TextExplanation": _VALUE,
    "regard.models.tokenizers.tokenizer.Tokenizer.write_files": _INNER,
    "regard.models.tokenizers.tokenizer.TokenizerPair.write_files": _INNER,
    "regard.models.word_vectors.iterate_word_vectors": _INNER,
    "regard.models.word_vectors.read_known_vectors": _INNER,
    "regard.storage.reading.TensorUnpacker.unpack": _INNER,
    "regard.storage.reading.read_tree": _INNER,
    "regard.storage.writing.write_tree": _INNER,
    "regard.studies.knockout.KnockOuts.to_pandas": _MEMORY,
    "regard.studies.survey.files.from_json": _INNER,
    "regard.studies.survey.files.to_json": _INNER,
    "regard.studies.survey.state.State.from_json": _INNER,
    "regard.studies.survey.state.State.to_json": _INNER,
    "regard.studies.survey.state.StateFile": _INNER,
    "regard.studies.survey.state.StateFile.save": _INNER,
    "regard.studies.survey.table.Survey.to_pandas": _MEMORY,
    "regard.tasks.answering.answer": _LOADS,
    "regard.tasks.asking.BaseQuestions": _LOADS,
    "regard.tasks.asking.answer": _LOADS,
    "regard.tasks.classification.classify": _LOADS,
    "regard.tasks.knowledge.answers.BaseAnswerer": _LOADS,
    "regard.tasks.knowledge.entries.Base": _VALUE,
    "regard.tasks.knowledge.entries.base_files": _INNER,
    "regard.tasks.models.TaskModels": _LOADS,
    "regard.tasks.models.named_model": _LOADS,
    "regard.tasks.models.task_model": _LOADS,
    "regard.tasks.pictures.read_input_picture": "reads by read_picture, which is fuzzed",
    "regard.tasks.recognition.recognise": _LOADS,
    "regard.tasks.summarisation.restore_case": _MEMORY,
    "regard.tasks.transcription.transcribe": _LOADS,
    "regard.tasks.summarisation.summarise": _LOADS,
    "regard.tasks.translation.translate": _LOADS,
    "regard.training.checkpoints.remove_old_checkpoints": "removes folders, and reads none",
    "regard.training.checkpoints.restore_optimizer_state": _INNER,
    "regard.training.checkpoints.unusable_checkpoint": "makes an error, and reads nothing",
    "regard.training.corpora.PairFiles": _INNER,
    "regard.training.corpora.TextFile": _INNER,
    "regard.training.class_metrics.ClassMetrics.to_json": _MEMORY,
    "regard.training.corpora.check_exists": "asks whether a file is there, and does not open it",
    "regard.training.corpora.data_suffix": _VALUE,
    "regard.training.corpora.numbered": _INNER,
    "regard.training.embeddings.copy_known_vectors": _INNER,
    "regard.training.events.Ended": _VALUE,
    "regard.training.events.Saved": _VALUE,
    "regard.training.logs.JsonLines": _LOG,
    "regard.training.logs.TensorBoard": _LOG,
    "regard.training.loop.Loop": _INNER,
    "regard.training.loop.StatefulTask.restore": _INNER,
    "regard.training.recipe.Recipe": _VALUE,
    "regard.training.tasks.translation.Translation.restore": _INNER,
    "regard.types.attribution.Attribution.to_pandas": _MEMORY,
    "regard.types.finding.Finding.to_json": _MEMORY,
    "regard.types.task_result.Candidate.to_json": _MEMORY,
    "regard.types.task_result.TaskResult.to_json": _MEMORY,
    "regard.types.task_result.TimedWord.to_json": _MEMORY,
    "regard.views.figure.canvas.Canvas.curves": "its Path is a curve of matplotlib",
    "regard.views.figure.fonts.Face": "is a font of the system",
    "regard.views.reports.open_finding": "opens a finding in a page, not a file",
    "regard.views.scene.build.build_scene": _INNER,
    "regard.views.scene.maps.read_window": _TENSORS,
    "regard.views.scene.maps.to_array": _TENSORS,
}


def surface() -> set[str]:
    """Every reader, exporter, kind of view, output suffix and command of regard."""
    functions = {
        f"{kind}:{name}"
        for name, function in _public_functions()
        if not is_excluded(name) and (kind := _kind(function)) is not None
    }
    suffixes = {f"suffix:{suffix}" for suffix in (*LOOK_SUFFIXES, *SURVEY_SUFFIXES)}
    kinds = {f"view:{name}" for name in KINDS}
    return functions | suffixes | kinds | {f"command:{name}" for name in COMMANDS}


def is_excluded(name: str) -> bool:
    """True for a function that is in the lists above."""
    return name in EXCLUDED or name.startswith((*INNER_MODULES,))


def missing_from(covered: Iterable[str], offered: Iterable[str] | None = None) -> list[str]:
    """What regard offers (or `offered`) and no campaign covers, in order."""
    return sorted({*(surface() if offered is None else offered)} - {*covered})


def qualified_name(function: Callable[..., Any]) -> str:
    """The module and the name under which a function or method is defined."""
    return f"{function.__module__}.{function.__qualname__}"


def _kind(function: Callable[..., Any]) -> str | None:
    """Whether a function is a reader or an exporter, by its name and by a path it takes."""
    name = function.__name__
    if _WRITES.match(name):
        return "exporter"
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a class of C without a signature
        return None
    takes_path = any(re.search(r"\bPath", str(parameter.annotation)) for parameter in parameters)
    return "reader" if takes_path or _READS.match(name) else None


def _public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions and methods of every module but those of the command line."""
    for module in walk_packages(regard.__path__, "regard."):
        if module.name.startswith("regard.cli") or "._" in module.name:
            continue
        content = import_module(module.name)
        for name in getattr(content, "__all__", None) or vars(content):
            value = getattr(content, name)
            if not name.startswith("_") and getattr(value, "__module__", None) == module.name:
                yield from ((qualified_name(found), found) for found in _functions_of(value))


def _functions_of(value: Any) -> Iterator[Callable[..., Any]]:
    """A function itself, or a class and the public methods that it defines."""
    if inspect.isfunction(value):
        yield value
    elif inspect.isclass(value):
        yield value  # a constructor may take a path, as that of a corpus does
        for name, member in vars(value).items():
            function = getattr(member, "__func__", member)
            if not name.startswith("_") and inspect.isfunction(function):
                yield function
