"""Hostile texts through every door: pages, figures, notebooks, terminal, JSON, CSV, every command.

    python -m fuzz texts --seed 3

A case is a door and a text: `view:heatmap .svg` with `</script>…` as a token, as the name of a site
and as the title. All doors get all texts of `hostile_texts.STRINGS`, and then random ones; figures,
notebooks and data files, which take longer, are of one kind of view for each text, by the seed.
With `cases` doors and texts are drawn at random. A test compares COVERED with what regard
registers, so that a new kind of view, suffix or command that has no door here fails it.
"""

import random
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzz.hostile_texts import STRINGS, random_text
from fuzz.text_commands import COMMAND_DOORS
from fuzz.text_doors import OUTPUTS, TABLES, VIEWS, Door, view_door
from regard.views.kinds import KINDS

__all__ = ["COVERED", "DOORS", "reproduce", "run"]

Report = Callable[[str, str], None]
SECONDS = 30.0  # of processor time that a case may take; a first call also imports and loads
RANDOM_TEXTS = 3  # for each door, if the number of cases is not given
_QUICK_OUTPUTS = (".html", "terminal")

DOORS: dict[str, Door] = {
    **{f"view:{kind} {output}": view_door(kind, output) for kind in VIEWS for output in OUTPUTS},
    **TABLES,
    **{f"command:{name}": door for name, door in COMMAND_DOORS.items()},
}
COVERED = frozenset(
    {
        *(f"view:{kind}" for kind in VIEWS if kind in KINDS),
        *(f"suffix:{output}" for output in OUTPUTS if output.startswith(".")),
        *(f"suffix:{name.split()[1]}" for name in TABLES if "." in name),
        *(f"command:{name}" for name in COMMAND_DOORS),
        "exporter:regard.views.outputs.View.save",
        "exporter:regard.views.table.Table.save",
        "exporter:regard.studies.survey.files.save_survey",
        "reader:regard.studies.survey.files.load_survey",
    }
)


def run(seed: int, cases: int | None, report: Report) -> int:
    """Send texts through the doors; how many cases were run."""
    count, total = 0, _total(cases)
    for number, (door, name, text) in enumerate(_cases(seed, cases)):
        count += 1
        failure = _run_case(door, text)
        if failure is not None:
            kind, detail = failure
            report(f"{kind}: {door}, {name}, case {number}", f"{text[:200]!a}\n{detail}")
        progress = getattr(report, "progress", None)
        if progress is not None:
            progress(count, total)
    return count


def reproduce(seed: int, number: int) -> str:
    """Run one case of a whole campaign again; what happened."""
    door, name, text = [*_cases(seed, None)][number]
    return f"{door}, {name}, {text[:500]!a}\n{_run_case(door, text) or 'no harm done'}"


def _total(cases: int | None) -> int:
    """The number of cases of a campaign."""
    return sum(1 for _ in _cases(0, None)) if cases is None else cases


def _cases(seed: int, cases: int | None) -> Iterator[tuple[str, str, str]]:
    """The door, the name of the text and the text of each case."""
    generator = random.Random(seed)
    if cases is not None:
        for _ in range(cases):
            yield generator.choice([*DOORS]), *_draw_text(generator)
        return
    for name, text in STRINGS.items():
        yield from ((door, name, text) for door in _doors_of_text(generator))
    for _ in range(RANDOM_TEXTS):
        yield from ((door, "random", random_text(generator)) for door in DOORS)


def _doors_of_text(generator: random.Random) -> Iterator[str]:
    """The doors that a text is sent through: all but the slow ones, and of these one kind each."""
    for door in DOORS:
        if not door.startswith("view:") or door.endswith(_QUICK_OUTPUTS):
            yield door
    for output in OUTPUTS:
        if output not in _QUICK_OUTPUTS:
            yield f"view:{generator.choice([*VIEWS])} {output}"


def _draw_text(generator: random.Random) -> tuple[str, str]:
    """The name of a text and the text: one of the list, or a random one."""
    if generator.random() < 0.3:
        return "random", random_text(generator)
    name = generator.choice([*STRINGS])
    return name, STRINGS[name]


def _run_case(door: str, text: str) -> tuple[str, str] | None:
    """Send a text through a door; the kind of failure and its detail, or None."""
    start = time.process_time()
    try:
        with tempfile.TemporaryDirectory(prefix="regard-texts-") as folder:
            DOORS[door](text, Path(folder))
    except ValueError as error:
        # checks raise a plain ValueError; one of regard is an error that nobody caught
        kind = "other" if type(error) is ValueError else "traceback"
        return kind, traceback.format_exc()
    except Exception:
        return "traceback", traceback.format_exc()
    spent = time.process_time() - start
    return None if spent < SECONDS else ("hang", f"{spent:.1f} s of processor time")
