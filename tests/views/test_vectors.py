"""The stored examples, which the front end reads too, say what the code does."""

import base64
import json

import numpy as np
import pytest

from regard.views import View, ViewState
from regard.views.captions import percent
from regard.views.encoding import decode
from regard.views.labelled_map import ticks
from regard.views.page.utf16 import Characters, from_units
from regard.views.reports import open_finding
from regard.views.scene import PackedScene, unpack_scene
from regard.views.scene.findings import finding_from_json
from views import vectors

STORED = json.loads(vectors.PATH.read_text("utf-8"))


@pytest.mark.parametrize("each", STORED["maps"], ids=lambda each: each["name"])
def test_a_stored_map_decodes_to_its_weights(each):
    found = decode(base64.b64decode(each["blob"]))
    assert found == pytest.approx(np.array(each["weights"]), rel=1e-5, abs=1e-9)


def test_the_stored_maps_have_every_code_and_support():
    kinds = {(each["code"], each["support"]) for each in STORED["maps"]}
    assert {code for code, _ in kinds} == {0, 1, 2}
    assert {support for _, support in kinds} == {0, 1, 2}


def test_the_stored_characters_are_those_of_their_bytes():
    data = bytes.fromhex(STORED["characters"]["bytes"])
    units = np.array(STORED["characters"]["units"], np.uint16)
    assert Characters.of(data).units().tolist() == units.tolist()
    assert from_units(units, len(data)) == data


@pytest.mark.parametrize("index", range(len(STORED["numbers"])))
def test_the_numbers_of_a_picture_are_the_stored_ones(index):
    blobs = tuple(base64.b64decode(blob) for blob in STORED["blobs"])
    scene = unpack_scene(PackedScene(STORED["scene"], blobs))
    stored = STORED["numbers"][index]
    found = vectors.plainly(View(scene, ViewState.from_json(stored["state"])).numbers)
    about = {
        path: pytest.approx(each, rel=1e-4, abs=1e-7) if isinstance(each, float) else each
        for path, each in flat(stored["numbers"]).items()
    }
    assert flat(found) == about


def flat(value, path=""):
    """The leaves of a tree by their path."""
    if isinstance(value, dict):
        return {k: v for key, each in value.items() for k, v in flat(each, f"{path}.{key}").items()}
    if isinstance(value, list):
        pairs = enumerate(value)
        return {k: v for key, each in pairs for k, v in flat(each, f"{path}.{key}").items()}
    return {path: value}


@pytest.mark.parametrize("each", STORED["hashes"], ids=lambda each: each["hash"])
def test_a_stored_hash_is_that_of_its_state(each):
    state = ViewState.from_json(each["state"])
    assert state.to_hash() == each["hash"]
    assert ViewState.from_hash(each["hash"]) == state


def test_the_stored_texts_of_weights_and_labels_are_as_they_are_written():
    assert all(percent(weight) == text for weight, text in STORED["percents"])
    assert all(list(ticks(count, most)) == found for count, most, found in STORED["ticks"])


def test_the_stored_scene_is_what_the_traces_give():
    made = json.loads(json.dumps(vectors.made()["scene"]))
    made["blobs"] = STORED["scene"]["blobs"]  # a library of deflate may be of another version
    assert made == STORED["scene"]


def test_the_stored_findings_open_the_stored_states():
    findings = [finding_from_json(each) for each in STORED["findings"]]
    for index, state in STORED["opened"]:
        assert open_finding(findings[index], index, ViewState()) == ViewState.from_json(state)
