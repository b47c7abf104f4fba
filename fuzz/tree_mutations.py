"""Mutations of trees, as JSON and TOML hold them: one value of the tree is changed, by its path."""

import json
import math
from collections.abc import Sequence
from copy import deepcopy
from random import Random
from typing import Any

from fuzz.hostile_values import DEEP, HUGE

__all__ = ["mutate_tree", "to_json_text", "to_toml_text"]

Path = tuple[Any, ...]
_DEEP_LIST, _DEEP_OBJECT, _TWIN = "$deep list$", "$deep object$", "$twin$"


def mutate_tree(random: Random, tree: Any, values: Sequence[Any]) -> tuple[Any, str]:
    """A copy of the tree with one to three changes, and what was changed."""
    tree, notes = deepcopy(tree), []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        path = random.choice(_paths(tree) or [()])
        name = random.choice([*_CHANGES])
        old = _value_at(tree, path)
        if name == "remove":
            tree = _remove(tree, path)
        else:
            tree = _replace(tree, path, _CHANGES[name](random, old, values))
        notes.append(f"{name} at {'/'.join(map(str, path)) or 'the root'}")
    return tree, ", ".join(notes)


def _swap(random: Random, old: Any, values: Sequence[Any]) -> Any:
    """Any hostile value instead."""
    return deepcopy(random.choice(values))


def _nudge(random: Random, old: Any, values: Sequence[Any]) -> Any:
    """Nearly the same value: a neighbour of a number, a text without its end, a shorter list."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int | float):
        return random.choice((old + 1, old - 1, -old, old * 2, old * 1000, str(old), float(old)))
    if isinstance(old, str):
        return random.choice((old[:-1], old.upper(), old + "x", old + "\0", [old], len(old)))
    if isinstance(old, list):
        return random.choice((old[:-1], old[::-1], old * 2, [old], {"0": old}, [*old, None]))
    if isinstance(old, dict):
        return random.choice((list(old), list(old.values()), {**old, "unknown": 1}, {**old, "": 2}))
    return random.choice(values)


def _nest(random: Random, old: Any, values: Sequence[Any]) -> Any:
    """A value that is nested more deeply than a recursive parser can read."""
    return random.choice((_DEEP_LIST, _DEEP_OBJECT))


def _repeat_key(random: Random, old: Any, values: Sequence[Any]) -> Any:
    """An object that has one of its keys twice, with another value."""
    if not isinstance(old, dict) or not old:
        return [old, old]
    key = random.choice([*old])
    return {**old, f"{_TWIN}{key}": random.choice(values)}


def _wrap(random: Random, old: Any, values: Sequence[Any]) -> Any:
    """The value in a list or an object."""
    return random.choice(([old], {"value": old}, [[old]], {"content": old, "type": None}))


_CHANGES: dict[str, Any] = {
    "swap": _swap, "swap again": _swap, "nudge": _nudge, "nudge again": _nudge, "nest": _nest,
    "repeat key": _repeat_key, "wrap": _wrap, "remove": None,
}  # fmt: skip


def _paths(tree: Any, most: int = 4000) -> list[Path]:
    """The paths of values in a tree, the upper ones first; long lists are sampled."""
    paths, queue = [], [((), tree)]
    while queue and len(paths) < most:
        path, value = queue.pop(0)
        paths.append(path)
        if isinstance(value, dict):
            queue += [((*path, key), item) for key, item in value.items()]
        elif isinstance(value, list):
            queue += [((*path, place), value[place]) for place in range(min(6, len(value)))]
    return paths


def _value_at(tree: Any, path: Path) -> Any:
    """The value at a path."""
    for key in path:
        tree = tree[key]
    return tree


def _replace(tree: Any, path: Path, value: Any) -> Any:
    """The tree with another value at a path."""
    if not path:
        return value
    _value_at(tree, path[:-1])[path[-1]] = value
    return tree


def _remove(tree: Any, path: Path) -> Any:
    """The tree without the value at a path; without its root it is null."""
    if not path:
        return None
    del _value_at(tree, path[:-1])[path[-1]]
    return tree


def to_json_text(tree: Any) -> str:
    """The tree as JSON, with what json.dumps cannot write: deep nesting and repeated keys."""
    text = json.dumps(tree)
    text = text.replace(f'"{_DEEP_LIST}"', "[" * DEEP + "]" * DEEP)
    text = text.replace(f'"{_DEEP_OBJECT}"', '{"a":' * DEEP + "1" + "}" * DEEP)
    return text.replace(f'"{HUGE}"', "1" + "0" * 5000).replace(_TWIN, "")


def to_toml_text(tree: Any) -> str:
    """The tree as TOML: tables of the first level as sections, everything else in line."""
    if not isinstance(tree, dict):
        return f"value = {_toml_value(tree)}\n"
    plain = {key: value for key, value in tree.items() if not isinstance(value, dict)}
    lines = [f"{_toml_key(key)} = {_toml_value(value)}" for key, value in plain.items()]
    for name, section in tree.items():
        if name not in plain:
            lines.append(f"[{_toml_key(name)}]")
            lines += [f"{_toml_key(key)} = {_toml_value(value)}" for key, value in section.items()]
    return "\n".join(lines) + "\n"


def _toml_key(key: str) -> str:
    """A key in quotes; a repeated one as it stands."""
    return json.dumps(str(key).replace(_TWIN, ""))


def _toml_value(value: Any) -> str:
    """A value in line; null, which TOML does not have, is an empty text."""
    if isinstance(value, dict):
        items = (f"{_toml_key(key)} = {_toml_value(item)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value == _DEEP_LIST:
        return "[" * DEEP + "]" * DEEP
    if value == _DEEP_OBJECT:
        return "{a=" * DEEP + "1" + "}" * DEEP
    return '""' if value is None else to_json_text(value)
