"""Figures beside stored ones: small, so that versions of matplotlib make no difference."""

import io
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.views import (
    MapReference,
    compare,
    figure,
    flow,
    heads,
    heatmap,
    highlight,
    overlay,
    report,
)
from views import vectors
from views.browser import scenes

STORED = Path(__file__).with_name("stored")
TOLERANCE = 0.02
SMALL = 40  # dots per inch


@cache
def views() -> dict:
    trace, other = scenes.a_trace(), MapReference(0, "layer.1", 2)
    return {
        "heatmap": heatmap(trace, "layer.1", 1, hide=["special"]),
        "heatmap-zh-log": heatmap(trace, "layer.1", unit="word", scale="log", language="zh"),
        "highlight-zh": highlight(trace, 7, "layer.0", 0, language="zh"),
        "flow": flow(trace, "layer.0", threshold=0.3),
        "flow-all": flow(trace, "layer.0", span="all"),
        "heads": heads(trace, badges={("layer.1", 2): ["sink"]}),
        "compare": compare(trace, site="layer.0", head=0, other=other),
        "overlay": overlay(scenes.a_captioned_picture(), scenes.a_picture()).with_state(place=1),
        "report": report(vectors.a_trace(), vectors.findings()[:1]),
    }


@cache
def drawn(name: str) -> np.ndarray:
    view, file = views()[name], io.BytesIO()
    figure.draw(view.scene, view.state).savefig(file, format="png", dpi=4 * SMALL)
    picture = Image.open(file).convert("RGB")
    small = picture.resize((picture.width // 4, picture.height // 4), Image.Resampling.BOX)
    if os.environ.get("REGARD_STORE_LOOKS"):
        STORED.mkdir(exist_ok=True)
        small.save(STORED / f"{name}.png", optimize=True)
    return np.asarray(small, np.float64)


def distance(one: np.ndarray, two: np.ndarray) -> float:
    """How far two pictures are apart on average, from 0 to 1; a pixel more or less is cut off."""
    assert abs(np.subtract(one.shape, two.shape)).max() <= 2, (one.shape, two.shape)
    high, wide = np.minimum(one.shape, two.shape)[:2]
    return float(np.abs(one[:high, :wide] - two[:high, :wide]).mean() / 255)


@pytest.mark.parametrize("name", views())
def test_figures_look_as_they_did(name):
    found = drawn(name)
    stored = np.asarray(Image.open(STORED / f"{name}.png").convert("RGB"), np.float64)
    assert distance(found, stored) < TOLERANCE


def test_another_figure_would_be_noticed():
    one = drawn("heatmap")
    turned = one[:, ::-1]
    assert distance(one, turned) > TOLERANCE
