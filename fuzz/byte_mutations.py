"""Mutations of files as bytes, as lines and as entries of a folder, whatever their format is."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from fuzz.hostile_values import HOSTILE_TEXTS

__all__ = ["BYTE_MUTATIONS", "LINE_MUTATIONS", "PLACE_MUTATIONS"]

LONG_LINE = 10_000_000  # bytes
_BOM, _NOT_UTF8 = b"\xef\xbb\xbf", (b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80")
_NUMBERS = (b"0", b"-1", b"1e999", b"nan", b"99999999999999999999", b"2147483648", b"0.5", b"")

Mutation = Callable[[Random, bytes, Sequence[bytes]], bytes]


def truncate(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Cut at any byte, near the ends, or after a line."""
    ends = [at + 1 for at, byte in enumerate(data[:100_000]) if byte == 10]
    near = [0, 1, 2, 7, 8, 9, 16, len(data) - 1, len(data) - 2, len(data) // 2, len(data) // 3]
    return data[
        : random.choice([*near, *random.sample(ends, min(5, len(ends))), _at(random, data)])
    ]


def flip_bits(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Flip bits in a few bytes, most often near the beginning, where formats keep their sizes."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 4, 64)) if data else 0):
        reach = random.choice((16, 200, len(data)))
        changed[random.randrange(min(reach, len(data)))] ^= 1 << random.randrange(8)
    return bytes(changed)


def overwrite(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Random bytes, zeros or ones over a part."""
    start, length = _at(random, data), random.choice((1, 8, 200))
    filling = random.choice((random.randbytes(length), b"\0" * length, b"\xff" * length))
    return data[:start] + filling + data[start + length :]


def insert(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Put bytes in: random ones, NUL, invalid UTF-8, line ends, brackets or a hostile text."""
    text = random.choice(HOSTILE_TEXTS).encode("utf-8", "surrogatepass")
    choices = (random.randbytes(5), b"\0", *_NOT_UTF8, _BOM, b"\r", b"\n\n", b"[{", b'"', text)
    at = _at(random, data)
    return data[:at] + random.choice(choices) + data[at:]


def remove_part(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Leave a part out."""
    start = _at(random, data)
    return data[:start] + data[start + random.choice((1, 8, 300)) :]


def repeat_part(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Write a part twice."""
    start = _at(random, data)
    return data[: start + random.choice((1, 8, 300))] + data[start:]


def splice(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """The beginning of this file and the end of another, or the other way round."""
    other = random.choice(others)
    first, second = random.choice(((data, other), (other, data)))
    return first[: _at(random, first)] + second[_at(random, second) :]


def swap_file(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Another file in its place."""
    return random.choice(others)


def change_number(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Another number in the place of one that is written in digits."""
    places = [*re.finditer(rb"-?\d+(?:\.\d+)?", data[:200_000])]
    if not places:
        return data + b"1"
    place = random.choice(places)
    return data[: place.start()] + random.choice(_NUMBERS) + data[place.end() :]


def change_encoding(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """The text with a byte order mark, with CRLF, in UTF-16, or in Latin-1 with an accent."""
    choices = (
        lambda: _BOM + data,
        lambda: data.replace(b"\n", b"\r\n"),
        lambda: data.replace(b"\n", b"\r"),
        lambda: data.decode("utf-8", "replace").encode("utf-16"),
        lambda: data.replace(b"e", b"\xe9"),
        lambda: data + b"\x1a",
    )
    return random.choice(choices)()


def fill(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A file of nothing, of blanks, of NULs or of random bytes."""
    choices = (b"", b" ", b"\n", b"\n" * 5000, b"\0", b"\0" * 100, random.randbytes(4000), _BOM)
    return random.choice(choices)


def lengthen(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A line of 10 MB in front, at the end or in the middle."""
    unit = random.choice((b"x", b"a b ", "我".encode(), b"1 ", b"[", b"\t", b'"', b"\0"))
    at = random.choice((0, len(data), _at(random, data)))
    return data[:at] + unit * (LONG_LINE // len(unit)) + data[at:]


BYTE_MUTATIONS: dict[str, Mutation] = {
    "truncated": truncate, "bits flipped": flip_bits, "overwritten": overwrite,
    "bytes inserted": insert, "part removed": remove_part, "part repeated": repeat_part,
    "spliced": splice, "another file": swap_file, "number changed": change_number,
    "encoding changed": change_encoding, "filled": fill, "a line of 10 MB": lengthen,
}  # fmt: skip


def change_cell(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A hostile text in the place of one cell of one line."""
    lines = data.split(b"\n")
    at = random.randrange(len(lines))
    cells = re.split(rb"([\t, ])", lines[at])
    cells[random.randrange(len(cells))] = random.choice(
        (random.choice(HOSTILE_TEXTS).encode("utf-8", "surrogatepass"), random.choice(_NUMBERS))
    )
    lines[at] = b"".join(cells)
    return b"\n".join(lines)


def move_lines(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Lines removed, repeated, in another order, or of another file."""
    lines = data.split(b"\n")
    at = random.randrange(len(lines))
    choices = (
        lambda: lines[:at] + lines[at + 1 :],
        lambda: lines[:at] + lines[at:] * 3,
        lambda: random.sample(lines, len(lines)),
        lambda: [*lines[:at], *random.choice(others)[:5000].split(b"\n"), *lines[at:]],
        lambda: [*lines[:at], b"", b" \t ", *lines[at:]],
    )
    return b"\n".join(random.choice(choices)())


LINE_MUTATIONS: dict[str, Mutation] = {"cell changed": change_cell, "lines moved": move_lines}


def _make_loop(path: Path) -> None:
    """A symbolic link to itself."""
    path.symlink_to(path.name)


def _make_folder(path: Path) -> None:
    """A folder with a file in it."""
    path.mkdir()
    (path / "inner.txt").write_text("inner")


PLACE_MUTATIONS: dict[str, Callable[[Path], None]] = {
    "a folder": _make_folder,
    "a link to itself": _make_loop,
    "a link to nothing": lambda path: path.symlink_to("missing"),
    "no file": lambda path: None,
}


def _at(random: Random, data: bytes) -> int:
    """A place in the data."""
    return random.randrange(len(data) + 1)
