"""Reading a recipe from its TOML file; file names in it are relative to the recipe's folder."""

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
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"no recipe {str(path)!r}; name a .toml file that is there") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{path} is no TOML: {error}") from error
    for key, value in changes.items():
        section, _, name = key.rpartition(".")
        (content.setdefault(section, {}) if section else content)[name] = value
    return _build_recipe(content, path.parent)


def _build_recipe(content: dict[str, Any], folder: Path) -> Recipe:
    """The checked recipe from parsed TOML; `folder` is that of the recipe's file."""
    known = [key.name for key in fields(Recipe)]
    for name in content:
        if name not in known:
            raise UnknownNameError("key of a recipe", name, known)
    task = content.get("task")
    if task not in TASKS:
        raise UnknownNameError("task", str(task), TASKS)
    if "folder" not in content:
        raise InputError("a recipe expected the key folder: where checkpoints and the model go")
    sections = {
        name: section.from_json(_resolve_files(content.get(name, {}), folder))
        for name, section in SECTIONS.items()
    }
    return Recipe(
        task,
        folder / content["folder"],
        content.get("seed", 0),
        model=content.get("model", {}),
        **sections,  # type: ignore[arg-type]
    )


def _resolve_files(section: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A copy of the section whose file names are resolved relative to the folder."""
    resolved = dict(section)
    if isinstance(resolved.get("train"), list):
        resolved["train"] = [_resolve_file(name, folder) for name in resolved["train"]]
    if resolved.get("dev"):
        resolved["dev"] = _resolve_file(resolved["dev"], folder)
    return resolved


def _resolve_file(name: Any, folder: Path) -> Any:
    """A file name, or a list of two parallel files, relative to the folder."""
    if isinstance(name, list):
        return tuple(_resolve_file(part, folder) for part in name)
    return str(folder / name)
