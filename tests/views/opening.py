"""A page opened as a browser would, with a plain decoder of its own."""

import json
import math
import struct
import zlib
from html.parser import HTMLParser


class Page(HTMLParser):
    """The elements of a page with their texts, and what its header says."""

    def __init__(self, data: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts, self.tags, self.meta, self.title = {}, [], {}, ""
        self._open = None
        assert data[:2] == b"\xff\xfe"
        self.text = data[2:].decode("utf-16-le", "surrogatepass")
        self.feed(self.text)
        self.close()
        self.header = json.loads(self.scripts["regard-header"])

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.append(tag)
        self._open = given.get("id", "front") if tag == "script" else tag
        if tag == "script":
            self.scripts.setdefault(self._open, "")
        if "http-equiv" in given:
            self.meta[given["http-equiv"]] = given["content"]

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open in self.scripts:
            self.scripts[self._open] += data
        elif self._open == "title":
            self.title += data

    def blob(self, number: int) -> bytes:
        part, start, length = self.header["places"][number]
        text = self.scripts[f"regard-part-{part}"][start : start + length]
        units, found = iter(text.encode("utf-16-le", "surrogatepass")), []
        numbers = [low + 256 * high for low, high in zip(units, units, strict=True)]
        steps = iter(numbers)
        for each in steps:
            found.append(next(steps) ^ 0x8000 if each == 0xE000 else each)
        return struct.pack(f"<{len(found)}H", *found)[: self.header["scene"]["blobs"][number]]


def weights(blob: bytes) -> list[list[float]]:
    """The weights of a blob, number by number as FORMAT.md says."""
    data = zlib.decompress(blob, wbits=-15)
    code, support, rank, rows, columns, largest = struct.unpack_from("<BBHIIf", data)
    place = 16
    starts, stops = [0] * rows, [columns] * rows
    if support == 1:
        (offset,) = struct.unpack_from("<i", data, place)
        stops, place = [min(max(row + offset + 1, 0), columns) for row in range(rows)], place + 4
    elif support == 2:
        ends = struct.unpack_from(f"<{2 * rows}i", data, place)
        starts = [sum(ends[: row + 1]) for row in range(rows)]
        stops = [sum(ends[rows : rows + row + 1]) for row in range(rows)]
        place += 8 * rows
    if code == 1:
        logs = _logs(data, place, rank, rows, columns)
        found = [[math.exp(each) for each in row] for row in logs]
    else:
        found = _by_level(iter(data[place:]), code, columns, list(zip(starts, stops, strict=True)))
    return [
        [
            min(weight, largest) if start <= column < stop else 0.0
            for column, weight in enumerate(row)
        ]
        for row, start, stop in zip(found, starts, stops, strict=True)
    ]


def _by_level(data, code, columns, runs):
    above, found = [0] * (columns + 1), []
    for start, stop in runs:
        row = [0] * (columns + 1)
        for column in range(start, stop):
            up, left, corner = above[column + 1], row[column], above[column]
            expected = min(max(up + left - corner, min(up, left)), max(up, left))
            row[column + 1] = (next(data) + (expected if code == 2 else 0)) % 256
        found.append([_level(each) for each in row[1:]])
        above = row
    return found


def _level(byte):
    if byte == 0:
        return 0.0
    return 0.001 * math.exp((0.25 if byte < 29 else 0.0551) * (byte - 28.5))


def _logs(data, place, rank, rows, columns):
    terms = []
    for length in (rows, columns):
        base, step = struct.unpack_from("<2f", data, place)
        low, high = data[place + 8 :][:length], data[place + 8 + length :][:length]
        terms.append([base + step * (a + 256 * b) for a, b in zip(low, high, strict=True)])
        place += 8 + 2 * length
    steps = struct.unpack_from(f"<{rank}f", data, place)
    shifts = data[place + 4 * rank :][: 2 * rank]
    place += 6 * rank
    sides = []
    for length in (rows, columns):
        high = struct.unpack_from(f"<{rank * length}b", data, place)
        sides.append([list(high[k * length : (k + 1) * length]) for k in range(rank)])
        place += rank * length
    for side, length, own in ((sides[0], rows, shifts[:rank]), (sides[1], columns, shifts[rank:])):
        for factor, shift in zip(side, own, strict=True):
            factor[:] = [each << shift for each in factor]
            for bit in range(shift):
                plane = data[place : place + -(-length // 8)]
                for index in range(length):
                    factor[index] += (plane[index // 8] >> index % 8 & 1) << bit
                place += -(-length // 8)
    logs = [
        [
            terms[0][i]
            + terms[1][j]
            + sum(steps[k] * sides[0][k][i] * sides[1][k][j] for k in range(rank))
            for j in range(columns)
        ]
        for i in range(rows)
    ]
    (count,) = struct.unpack_from("<I", data, place)
    planes, cell = data[place + 4 :][: 4 * count], 0
    for index in range(count):
        cell += sum(planes[index + count * plane] << 8 * plane for plane in range(4))
        (more,) = struct.unpack_from("<b", data, place + 4 + 4 * count + index)
        logs[cell // columns][cell % columns] += 0.04 * more
    return logs
