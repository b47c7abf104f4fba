"""Mutations that keep a format's outer form, so that what is changed reaches the inner checks.

A header of safetensors is changed and its length corrected; a trace is changed and its checksums
are computed again; JSON and TOML are changed by the path of a value.
"""

import json
import math
import struct
import tomllib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from fuzz.byte_mutations import BYTE_MUTATIONS, LINE_MUTATIONS, PLACE_MUTATIONS
from fuzz.tree_mutations import mutate_tree, to_json_text, to_toml_text

__all__ = ["FORMATS", "Material", "mutate_file"]

_LENGTH = 8  # bytes of a safetensors file that hold the length of its header
_STRUCTURED_SHARE = 0.6  # of the cases of a format that has mutations of its own
_PLACE_SHARE = 0.04  # of all cases


@dataclass(frozen=True)
class Material:
    """What mutations draw from: hostile values, and the bytes of other intact files."""

    values: Sequence[Any]
    files: Sequence[bytes]


Change = Callable[[Random, bytes, Material], tuple[bytes, str]]


def mutate_file(path: Path, form: str, random: Random, material: Material) -> str:
    """Change a file in its place; returns what was done, for a person to read."""
    data = path.read_bytes()
    if random.random() < _PLACE_SHARE:
        name = random.choice([*PLACE_MUTATIONS])
        path.unlink()
        PLACE_MUTATIONS[name](path)
        return name
    change = FORMATS[form]
    if change is not None and random.random() < _STRUCTURED_SHARE:
        data, note = change(random, data, material)
    else:
        name = random.choice([*BYTE_MUTATIONS])
        data, note = BYTE_MUTATIONS[name](random, data, material.files), name
    path.write_bytes(data)
    return note


def mutate_json(random: Random, data: bytes, material: Material) -> tuple[bytes, str]:
    """JSON with some values changed."""
    tree, note = mutate_tree(random, json.loads(data), material.values)
    return to_json_text(tree).encode("utf-8", "surrogatepass"), note


def mutate_toml(random: Random, data: bytes, material: Material) -> tuple[bytes, str]:
    """TOML with some values changed."""
    tree, note = mutate_tree(random, tomllib.loads(data.decode()), material.values)
    return to_toml_text(tree).encode("utf-8", "surrogatepass"), note


def mutate_json_lines(random: Random, data: bytes, material: Material) -> tuple[bytes, str]:
    """Lines of JSON of which one is changed."""
    lines = data.split(b"\n")
    number = random.randrange(len(lines) - 1)
    lines[number], note = mutate_json(random, lines[number], material)
    return b"\n".join(lines), f"line {number + 1}: {note}"


def mutate_lines(random: Random, data: bytes, material: Material) -> tuple[bytes, str]:
    """Lines of text of which some are changed or moved."""
    name = random.choice([*LINE_MUTATIONS])
    return LINE_MUTATIONS[name](random, data, material.files), name


def mutate_safetensors(random: Random, data: bytes, material: Material) -> tuple[bytes, str]:
    """A safetensors file whose header is changed and has its length, or with other numbers."""
    header, body = _split(data)
    if random.random() < 0.3:
        return _pack(json.dumps(header).encode(), _fill_numbers(random, body)), "numbers"
    change = random.choice((_change_tensors, _change_header))
    header, note = change(random, header, material)
    return _pack(to_json_text(header).encode("utf-8", "surrogatepass"), body), note


def _change_header(random: Random, header: Any, material: Material) -> tuple[Any, str]:
    """Any value of the header changed."""
    return mutate_tree(random, header, material.values)


def _change_tensors(random: Random, header: Any, material: Material) -> tuple[Any, str]:
    """Tensors renamed, removed, of another type, or of another shape with as many numbers."""
    name = random.choice([key for key in header if key != "__metadata__"])
    entry = dict(header[name])
    rest = {key: value for key, value in header.items() if key != name}
    count = math.prod(entry["shape"])
    choices = (
        ("removed", rest),
        ("renamed", rest | {f"{name}x": entry}),
        ("flat", rest | {name: entry | {"shape": [count]}}),
        ("turned", rest | {name: entry | {"shape": entry["shape"][::-1]}}),
        ("with an axis", rest | {name: entry | {"shape": [1, *entry["shape"]]}}),
        ("as int32", rest | {name: entry | {"dtype": "I32"}}),
        ("as float16 of twice the size", rest | {name: _halved(entry)}),
        ("empty", rest | {name: entry | {"shape": [0, *entry["shape"][1:]]}}),
        ("huge", rest | {name: entry | {"shape": [2**40, *entry["shape"][1:]]}}),
    )
    note, changed = random.choice(choices)
    return changed, f"{name} {note}"


def _halved(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry of a tensor of half precision with as many bytes."""
    shape = entry["shape"] or [1]
    return entry | {"dtype": "F16", "shape": [*shape[:-1], 2 * shape[-1]]}


def mutate_trace(random: Random, data: bytes, material: Material) -> tuple[bytes, str]:
    """A trace with another tree, other tensors or other numbers, and with right checksums."""
    header, body = _split(data)
    metadata = header.pop("__metadata__")
    state, note = json.loads(metadata["state"]), "numbers"
    choice = random.random()
    if choice < 0.6:
        state, note = mutate_tree(random, state, material.values)
    elif choice < 0.75 and header:
        header, note = _change_tensors(random, header, material)
    else:
        body = _fill_numbers(random, body)
    return seal_trace(header, metadata | {"state": to_json_text(state)}, body), f"sealed, {note}"


def seal_trace(entries: dict[str, Any], metadata: dict[str, str], body: bytes) -> bytes:
    """A trace file with the checksums that its content has."""
    sums = []
    for entry in entries.values():
        start, stop = entry["data_offsets"]
        sums.append(f"{zlib.crc32(body[start:stop]):08x}")
    zero = "00000000"
    filled = metadata | {"crc32": zero, "blobs_crc32": "".join(sums)}
    text = json.dumps({"__metadata__": filled} | entries, separators=(",", ":")).encode()
    text += b" " * (-(_LENGTH + len(text)) % 64)
    own = f'"crc32":"{zlib.crc32(text):08x}"'.encode()
    return _pack(text.replace(f'"crc32":"{zero}"'.encode(), own, 1), body)


def _fill_numbers(random: Random, body: bytes) -> bytes:
    """The numbers of tensors with NaN, infinity, huge or random values among them."""
    values = (math.nan, math.inf, -math.inf, 1e38, -1.0, 0.0)
    filling = struct.pack("<f", random.choice(values)) * random.choice((1, 3, 200))
    at = 4 * random.randrange(len(body) // 4 + 1)
    return (body[:at] + filling + body[at + len(filling) :])[: len(body)]


def _split(data: bytes) -> tuple[Any, bytes]:
    """The header of a safetensors file as a tree, and the bytes after it."""
    stop = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    return json.loads(data[_LENGTH:stop]), data[stop:]


def _pack(header: bytes, body: bytes) -> bytes:
    """A safetensors file of a header and the bytes of its tensors."""
    return len(header).to_bytes(_LENGTH, "little") + header + body


def mutate_png(random: Random, data: bytes, material: Material) -> tuple[bytes, str]:
    """A PNG whose first chunk announces another size or kind of picture, with its checksum."""
    sizes = (0, 1, 65_535, 2**31 - 1, 2**32 - 1, 12_000)
    chunk = b"IHDR" + struct.pack(
        ">IIBBBBB",
        random.choice(sizes),
        random.choice(sizes),
        random.choice((0, 1, 8, 16, 255)),
        random.choice((0, 2, 3, 6, 255)),
        0,
        0,
        random.choice((0, 1, 255)),
    )
    checksum = zlib.crc32(chunk).to_bytes(4, "big")
    return data[:12] + chunk + checksum + data[33:], "another size or kind in IHDR"


FORMATS: dict[str, Change | None] = {
    "json": mutate_json,
    "json lines": mutate_json_lines,
    "toml": mutate_toml,
    "lines": mutate_lines,
    "safetensors": mutate_safetensors,
    "trace": mutate_trace,
    "png": mutate_png,
    "bytes": None,
}
