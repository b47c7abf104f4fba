"""The header of a saved scene is checked in every part before anything is drawn."""

import json

import pytest

from regard.errors import FileError, InputError
from regard.views import heatmap
from regard.views.outputs import View
from regard.views.scene.packing import PackedScene, unpack_scene
from regard.views.scene.records import check_scene
from views import vectors

PACKED = heatmap(vectors.a_trace(), head=1).packed


def changed(path, value):
    """The header with another value at a path of keys."""
    header = json.loads(json.dumps(PACKED.header))
    inner = header
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return header


STREAM = ("traces", 0, "streams", next(iter(PACKED.header["traces"][0]["streams"])))
SITE = ("traces", 0, "sites", 0)


def test_the_header_of_a_scene_is_accepted():
    check_scene(changed(("title",), "x"), len(PACKED.blobs))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("traces",), 3, "expected traces to be a list, got 3"),
        (("alignments",), {"a|b": [[1]]}, "an alignment has groups of 4 numbers"),
        ((*STREAM, "texts"), [1], r"texts\[0\] to be text, got 1"),
        ((*STREAM, "spaced"), "0", "has as many spaces as texts"),
        ((*STREAM, "plain"), [], "has as many plain texts as texts"),
        ((*STREAM, "special"), [10**9], "has the index 1000000000, expected 0 to"),
        ((*STREAM, "words"), [1, 0], "are in order"),
        ((*STREAM, "words"), [1], "begin with its first text"),
        ((*STREAM, "grid"), [99, 99], "has at most as many cells as texts"),
        ((*SITE, "kind"), "x", "did you mean|Known: encoder"),
        ((*SITE, "heads"), 2**64, "heads to be a whole number, got 1844"),
        ((*SITE, "heads"), 0, "has maps for each of its heads"),
        ((*SITE, "cells"), [0, 1], "has cells of two sides"),
        ((*SITE, "maps"), [10**6], "has maps for each of its heads"),
        ((*SITE, "rows", "stream"), "x", "names streams of its trace"),
        ((*SITE, "rows", "runs"), [[0, 10**12]], "has positions within the"),
        ((*SITE, "rows", "runs"), [[0, 2]] * 10**5, "has axes as long as their streams"),
        ((*SITE, "rows", "runs"), [], "has rows and columns"),
        ((*SITE, "produced"), {"stream": STREAM[-1], "runs": [[0, 1]]}, "produced tokens as rows"),
        ((*SITE, "largest"), {"cells": [1, 1], "maps": []}, "has largest weights of each head"),
        ((*SITE, "windows"), [{"head": 9, "rows": [], "columns": [], "blob": 0}], "a window of"),
        (("traces", 0, "pictures"), {"x": {"type": "", "blob": 0}}, "belongs to a stream"),
    ],
)
def test_a_part_of_a_header_that_does_not_fit_is_named(path, value, message):
    with pytest.raises(InputError, match=message):
        check_scene(changed(path, value), len(PACKED.blobs))


def test_a_blob_that_is_not_there_is_named():
    with pytest.raises(InputError, match="has the index"):
        check_scene(PACKED.header, 0)


@pytest.mark.parametrize("blob", [b"", b"\xff" * 99, PACKED.blobs[0][:-9]])
def test_a_damaged_map_is_refused_when_it_is_drawn(blob):
    scene = unpack_scene(PackedScene(PACKED.header, (blob,) * len(PACKED.blobs)))
    with pytest.raises(FileError, match=r"a map of .* weights is damaged"):
        scene.weights(0, None, 0)


def test_a_map_of_another_shape_is_refused_when_it_is_drawn():
    header = changed((*SITE, "cells"), [2, 2])
    scene = unpack_scene(PackedScene(header, PACKED.blobs))
    with pytest.raises(FileError, match=r"a map of .* is damaged or of another shape"):
        scene.weights(0, None, 0)


@pytest.mark.parametrize("text", ["[" * 99999, '{"scene": 3, "state": {}, "blobs": []}'])
def test_a_file_of_other_types_is_refused(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(FileError, match=r"nested too deeply|expected scene to be an object"):
        View.load(tmp_path / "x.json")


def test_a_trace_without_a_site_has_nothing_to_draw():
    scene = unpack_scene(PackedScene(changed(("traces", 0, "sites"), []), PACKED.blobs))
    with pytest.raises(InputError, match="has no attention site to draw"):
        scene.weights(0, None, 0)
