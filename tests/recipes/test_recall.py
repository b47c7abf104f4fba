"""The experiment on recall: its task, its networks, and that its page shows what was measured."""

import importlib.util
import json
import re
import statistics
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "recipes" / "recall"


@pytest.fixture(scope="module")
def experiment():
    spec = importlib.util.spec_from_file_location("experiment", FOLDER / "experiment.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def found():
    return json.loads((FOLDER / "recall.json").read_text("utf-8"))


def test_the_symbols_stand_between_noise_of_the_distance(experiment):
    source, target = experiment.batch(7, torch.Generator().manual_seed(0), rows=11)
    assert source.shape == (11, 17)
    assert torch.equal(source[:, 7:10], target)
    noise = torch.cat([source[:, :7], source[:, 10:]], dim=1)
    assert target.max() < experiment.SYMBOLS <= noise.min()


@pytest.mark.parametrize("place", range(4))
def test_a_network_sees_no_symbol_before_it_writes_it(experiment, place):
    torch.manual_seed(0)
    model = [*experiment.NETWORKS.values()][place]().eval()
    source, target = experiment.batch(5, torch.Generator().manual_seed(0), rows=3)
    late = torch.nn.functional.pad(target[:, :-1], (1, 0), value=experiment.START)
    other = late.clone()
    other[:, 2] = (late[:, 2] + 1) % experiment.SYMBOLS
    with torch.no_grad():
        one, two = model(source, late), model(source, other)
    torch.testing.assert_close(one[:, :2], two[:, :2])
    assert not torch.allclose(one[:, 2], two[:, 2])


def test_a_cell_tells_what_was_recalled_and_what_gradient_arrived(experiment, monkeypatch):
    monkeypatch.setattr(experiment, "STEPS", 3)
    cell = experiment.train_and_measure("recurrent, attention", 2, seed=0)
    assert 0 <= cell["right"] <= 1
    assert 0 < cell["share before"] < 1
    assert cell["gradient after"] > 0


def test_what_is_there_is_not_run_again(experiment, monkeypatch, tmp_path, found):
    (tmp_path / "recall.json").write_text(json.dumps(found))
    monkeypatch.setattr(sys, "argv", ["experiment.py", "--to", str(tmp_path)])
    monkeypatch.setattr(experiment, "train_and_measure", None)  # a call would fail
    experiment.main()
    assert json.loads((tmp_path / "recall.json").read_text()) == found


@pytest.mark.parametrize("page", ["docs/recall.md", "docs/recall.zh.md"])
@pytest.mark.parametrize(("number", "form"), [("right", "{:.0%}"), ("gradient before", "{:.1e}")])
def test_the_tables_of_the_page_are_what_was_measured(experiment, found, page, number, form):
    rows = re.findall(r"^\|(.+)\|$", (ROOT / page).read_text("utf-8"), flags=re.MULTILINE)
    cells = [tuple(cell.strip() for cell in row.split("|"))[1:] for row in rows]
    for name in experiment.NETWORKS:
        seeds = [
            [found[experiment.key(seed, distance, name)][number] for seed in experiment.SEEDS]
            for distance in experiment.DISTANCES
        ]
        assert tuple(form.format(statistics.median(each)) for each in seeds) in cells
