"""Reading a recipe from its TOML file, with the file names in it resolved beside the recipe."""

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

from regard.errors import FileError, InputError, UnknownNameError
from regard.models.config import Config
from regard.training.recipe import Data, Plan, Recipe, Vocabulary
from regard.training.tasks import TASKS

__all__ = ["load_recipe"]

SECTIONS: dict[str, type[Config]] = {"data": Data, "vocabulary": Vocabulary, "plan": Plan}


def load_recipe(path: str | Path, **changes: Any) -> Recipe:
    """The recipe of a TOML file; `changes` replace keys, such as {"plan.steps": 5}."""
    path = Path(path)
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"no recipe {str(path)!r}; name a .toml file that is there") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{path} is no TOML: {error}") from error
    for key, value in changes.items():
        section, _, name = key.rpartition(".")
        (found.setdefault(section, {}) if section else found)[name] = value
    return _recipe(found, path.parent)


def _recipe(found: dict[str, Any], beside: Path) -> Recipe:
    """The recipe of parsed TOML, checked."""
    known = [each.name for each in fields(Recipe)]
    for name in found:
        if name not in known:
            raise UnknownNameError("key of a recipe", name, known)
    task = found.get("task")
    if task not in TASKS:
        raise UnknownNameError("task", str(task), TASKS)
    if "folder" not in found:
        raise InputError("a recipe expected the key folder: where checkpoints and the model go")
    sections = {
        name: kind.from_json(_resolve_files(found.get(name, {}), beside))
        for name, kind in SECTIONS.items()
    }
    folder = beside / found["folder"]
    return Recipe(task, folder, found.get("seed", 0), model=found.get("model", {}), **sections)  # type: ignore[arg-type]


def _resolve_files(section: dict[str, Any], beside: Path) -> dict[str, Any]:
    """The section with its file names resolved relative to the recipe."""
    placed = dict(section)
    if isinstance(placed.get("train"), list):
        placed["train"] = [_resolve_file(each, beside) for each in placed["train"]]
    if placed.get("dev"):
        placed["dev"] = _resolve_file(placed["dev"], beside)
    return placed


def _resolve_file(name: Any, beside: Path) -> Any:
    """A file name, or a pair of them, relative to the folder of the recipe."""
    if isinstance(name, list):
        return tuple(_resolve_file(each, beside) for each in name)
    return str(beside / name)
