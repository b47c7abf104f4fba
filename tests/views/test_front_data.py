import subprocess
import sys
from pathlib import Path

import pytest

from regard.errors import InputError
from regard.views.kinds import KINDS, command_line_kinds, finding_kinds

ROOT = Path(__file__).parents[2]


def test_the_data_of_the_front_end_is_current():
    tool = ROOT / "tools" / "write_front_data.py"
    done = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_kinds_are_in_the_order_of_their_tabs():
    assert [*KINDS] == ["heads", "heatmap", "highlight", "flow", "overlay", "compare"]
    assert [kind.key for kind in KINDS.values()] == ["1", "2", "3", "4", "5", "6"]


def test_only_kinds_of_one_trace_are_offered_where_there_is_one():
    assert "compare" not in command_line_kinds()
    assert finding_kinds() == ("heads", "heatmap", "highlight", "flow")


def test_asking_for_the_kinds_imports_nothing_heavy():
    code = "import sys, regard.views.kinds; print({'torch', 'numpy', 'rich'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_kind_that_is_not_drawn_somewhere_says_so():
    with pytest.raises(InputError, match="the view 'heatmap' has no poster drawing"):
        KINDS["heatmap"]._function("poster", "draw_heatmap")


def test_every_kind_has_its_functions_and_its_name_in_both_languages():
    from regard.text import say

    for kind in KINDS.values():
        assert callable(kind.terminal_drawing())
        assert callable(kind.figure_drawing())
        assert say(kind.label_key, "en") == kind.name.capitalize()
        assert not say(kind.label_key, "zh").isascii()


@pytest.mark.parametrize("page", ["views.md", "views.zh.md"])
def test_the_reference_lists_every_kind_in_order(page):
    lines = (ROOT / "docs" / "reference" / page).read_text("utf-8").splitlines()
    listed = [line.split("`")[1] for line in lines if line.startswith("| `")]
    assert listed == [*KINDS]
