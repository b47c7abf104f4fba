"""Reading a recipe from its TOML file; file names in it are relative to the recipe's folder."""

from dataclasses import fields
from pathlib import Path
from typing import Any, TypedDict

from regard.documents import check_record, quote_value, read_toml
from regard.errors import FileError, InputError, UnknownNameError
from regard.models.config import Config
from regard.training.recipe import Data, Plan, Recipe, Vocabulary
from regard.training.tasks import TASKS

__all__ = ["load_recipe"]

SECTIONS: dict[str, type[Config]] = {"data": Data, "vocabulary": Vocabulary, "plan": Plan}


class RecipeRecord(TypedDict, total=False):
    """The keys of a recipe's file; the sections check their own keys."""

    folder: str
    seed: int
    data: dict[str, Any]
    vocabulary: dict[str, Any]
    model: dict[str, Any]
    plan: dict[str, Any]


def load_recipe(path: str | Path, /, **changes: Any) -> Recipe:
    """The recipe of a TOML file; `changes` replace keys, such as {"plan.steps": 5}."""
    path = Path(path)
    if not path.is_file():
        raise FileError(f"no recipe {str(path)!r}; name a .toml file that is there")
    content = read_toml(path)
    for key, value in changes.items():
        section, _, name = key.rpartition(".")
        keys = content.setdefault(section, {}) if section else content
        if not isinstance(keys, dict):
            raise InputError(f"{section} of a recipe has no keys, so {key} cannot be set")
        keys[name] = value
    return _build_recipe(content, path.parent)


def _build_recipe(content: dict[str, Any], folder: Path) -> Recipe:
    """The checked recipe from parsed TOML; `folder` is that of the recipe's file."""
    known = [key.name for key in fields(Recipe)]
    for name in content:
        if name not in known:
            raise UnknownNameError("key of a recipe", name, known)
    task = content.get("task")
    if not isinstance(task, str) or task not in TASKS:
        raise UnknownNameError("task", str(task), TASKS)
    check_record("a recipe", content, RecipeRecord)
    if "folder" not in content:
        raise InputError("a recipe expected the key folder: where checkpoints and the model go")
    if "\0" in content["folder"]:
        raise InputError(f"a recipe expected a folder's name, got {quote_value(content['folder'])}")
    sections = {
        name: section.from_json(_resolve_files(content.get(name, {}), folder))
        for name, section in SECTIONS.items()
    }
    return Recipe(
        task,
        folder / content["folder"],
        content.get("seed", 0),
        model=_resolve_start(content.get("model", {}), folder),
        **sections,  # type: ignore[arg-type]
    )


def _resolve_files(section: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A copy of the section whose file names are resolved relative to the folder."""
    resolved = dict(section)
    if isinstance(resolved.get("train"), list):
        resolved["train"] = [_resolve_file(name, folder) for name in resolved["train"]]
    for name in ("dev", "vectors"):
        if resolved.get(name):
            resolved[name] = _resolve_file(resolved[name], folder)
    return resolved


def _resolve_start(model: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The section [model] whose `start` is relative to the folder, if there is such a model."""
    start = model.get("start")
    if isinstance(start, str) and (folder / start / "config.json").is_file():
        return model | {"start": str(folder / start)}
    return model


def _resolve_file(name: Any, folder: Path) -> Any:
    """A file name, or a list of two parallel files, relative to the folder."""
    if isinstance(name, list):
        return tuple(_resolve_file(part, folder) for part in name)
    return str(folder / name) if isinstance(name, str) else name
