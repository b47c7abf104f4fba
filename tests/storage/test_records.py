"""A tree whose checksums fit, but which is no trace, is refused in a sentence."""

import pytest
import torch

from regard.errors import FileError, InputError
from regard.storage import load_trace
from regard.storage.traces import trace_from_tree, trace_to_tree
from regard.storage.writing import write_tree
from traces import a_trace


def tree_with(path, value):
    """The tree of a trace, with another value at a path of keys."""
    tree = trace_to_tree(a_trace())
    inner = tree
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return tree


def index_of(form):
    """The number of the first map whose weights have this form."""
    forms = [map_tree["source"]["kind"] for map_tree in trace_to_tree(a_trace())["maps"]]
    return forms.index(form)


RECOMPUTABLE = ("maps", index_of("recomputable"))
SCORING = (*RECOMPUTABLE, "source", "scoring")


def test_the_tree_of_a_trace_is_accepted():
    assert len(trace_from_tree(trace_to_tree(a_trace()))) == len(a_trace())


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("streams", 0, "name"), 3, r"streams\[0\]\.name to be text, got 3"),
        (("streams", 0, "texts"), [1], r"streams\[0\]\.texts\[0\] to be text"),
        (("streams", 0, "ids"), ["x"], r"ids\[0\] to be a whole number, got 'x'"),
        (("streams", 0, "ids"), [2**64], r"ids\[0\] to be a whole number"),
        (("streams", 0, "grid"), [1, 2, 3], "grid of the stream .* should be pairs"),
        (("streams", 0, "offsets"), [[1]], "offsets of the stream .* should be pairs"),
        (("gaps",), [{"site": 1, "reason": ""}], r"gaps\[0\]\.site to be text, got 1"),
        (("maps", 0, "site"), None, r"maps\[0\]\.site to be text"),
        (("maps", 0, "rows", "runs"), [[0, 10**15]], "outside of its"),
        (("maps", 0, "rows", "runs"), [[0, 2]] * 10**4, "positions, far too many"),
        (("maps", 0, "source", "kind"), [], "has weights of no known form"),
        ((*RECOMPUTABLE, "source", "query"), 3, "expected query to be"),
        ((*RECOMPUTABLE, "source", "query"), torch.ones(3), "expected query to be"),
        ((*RECOMPUTABLE, "source", "lse"), torch.ones(1, 1), "do not fit together"),
        ((*SCORING, "offset"), 2**62, "has the offset 4611686018427387904, far too large"),
        ((*SCORING, "scale"), "x", r"scoring\.scale to be a number or null, got 'x'"),
        ((*SCORING, "sink"), torch.ones(999), "expected a sink for each of its"),
        ((*SCORING, "mask"), {"kind": 3}, "no kind of mask or bias '3'"),
        ((*SCORING, "mask"), {"kind": "Window", "left": "x", "right": 0}, "expected left to be"),
        ((*SCORING, "mask"), {"kind": "Not", "part": 3}, "expected part to be"),
        ((*RECOMPUTABLE, "values"), 3, "values to be"),
    ],
)
def test_a_value_that_no_trace_has_is_named(unchecked, path, value, message):
    with pytest.raises(InputError, match=message):
        trace_from_tree(tree_with(path, value))


def test_a_key_that_is_not_there_is_refused():
    tree = trace_to_tree(a_trace())
    statistics = next(part["statistics"] for part in tree["maps"] if part["statistics"])
    statistics["largest_key"] = torch.full_like(statistics["largest_key"], 10**6)
    with pytest.raises(InputError, match="names a key outside of its"):
        trace_from_tree(tree)


@pytest.mark.parametrize(("side", "message"), [(0, "cells of no size"), (3, "an atlas of shape")])
def test_an_atlas_of_another_size_is_refused(side, message):
    tree = trace_to_tree(a_trace())
    atlas = next(part["atlas"] for part in tree["maps"] if part["atlas"])
    atlas["rows"] = side
    with pytest.raises(InputError, match=message):
        trace_from_tree(tree)


def test_a_file_that_was_sealed_anew_is_refused_by_name(tmp_path):
    write_tree(tmp_path / "a.trace", tree_with(("streams", 0, "ids"), ["x"]))
    with pytest.raises(FileError, match=r"a.trace holds no whole trace: .*ids\[0\]"):
        load_trace(tmp_path / "a.trace")
