"""Findings in the terminal: a list, the worst first, with what each means and what to do."""

from collections import Counter
from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from regard.text import say
from regard.types.finding import SEVERITIES, Finding
from regard.views.captions import check_said, join_sentences, place_said, spoken, value_of
from regard.views.scene import Scene
from regard.views.state import State
from regard.views.terminal.ink import Ink
from regard.views.wrapping import wrapped

SIGNS = {"bug": "■", "warning": "▲", "observation": "○"}
PLAIN = {"bug": "!", "warning": "*", "observation": "-"}
COLOURS = {"bug": "red", "warning": "yellow", "observation": "blue"}
INDENT = "  "


def draw_findings(scene: Scene, state: State, ink: Ink, width: int) -> Iterator[Text]:
    """How many there are of each severity, then one after the other."""
    findings = scene.findings or ()
    if not findings:
        yield from _lines(say("report.none", state.language), ink, width)
        return
    counts = Counter(each.severity for each in findings)
    told = [
        f"{say(f'report.{each}', state.language)} {counts[each]}"
        for each in SEVERITIES[::-1]
        if counts[each]
    ]
    yield from _lines(" · ".join(told), ink, width, style="bold")
    for each in findings:
        yield Text("")
        yield from _told(each, scene, state, ink, width)


def _told(finding: Finding, scene: Scene, state: State, ink: Ink, width: int) -> Iterator[Text]:
    saying = spoken(finding, state.language)
    sign = (PLAIN if ink.plain else SIGNS)[finding.severity]
    severity = say(f"severity.{finding.severity}", state.language)
    colour = COLOURS[finding.severity] if ink.coloured else ""
    told = _named(severity, saying.sentence, state)
    for index, line in enumerate(_lines(told, ink, width, style="bold")):
        lead = Text(f"{sign} " if index == 0 else INDENT, style=colour)
        yield lead + line
    yield from _indented(_facts(finding, scene, state), ink, width, style="dim")
    for key, text in (("finding.meaning", saying.meaning), ("finding.remedy", saying.remedy)):
        if text:
            yield from _indented(_named(say(key, state.language), text, state), ink, width)
    if finding.remedy_code:
        yield from _indented(_named(say("finding.call", state.language), "", state), ink, width)
        for code in finding.remedy_code.splitlines():
            yield from _code(code, ink, width)


def _named(name: str, text: str, state: State) -> str:
    return say("finding.named", state.language, name=name, text=text).rstrip()


def _code(line: str, ink: Ink, width: int) -> Iterator[Text]:
    """A line of code with its own indent; what is too long goes on below."""
    bare = line.lstrip()
    indent = INDENT * 2 + line[: len(line) - len(bare)]
    for part in wrapped(ink.text(bare), max(8, width - len(indent)), cell_len):
        yield Text(indent + part, style="cyan" if ink.coloured else "", no_wrap=True)


def _facts(finding: Finding, scene: Scene, state: State) -> str:
    """Where it was found, by which check, with its number and limit."""
    parts = [check_said(finding.check, state.language), value_of(finding, state.language)]
    if finding.site is not None:
        sites = [each for each in scene.trace(finding.example).sites if each.name == finding.site]
        said = place_said(sites[0], finding.head) if sites and finding.head is not None else None
        parts.insert(
            0, join_sentences(state.language, [said]).rstrip(".。") if said else finding.site
        )
    return " · ".join(parts)


def _indented(text: str, ink: Ink, width: int, style: str = "") -> Iterator[Text]:
    for line in _lines(text, ink, width, style=style):
        yield Text(INDENT) + line


def _lines(text: str, ink: Ink, width: int, style: str = "") -> Iterator[Text]:
    room = max(8, width - len(INDENT))
    for line in wrapped(ink.text(text), room, cell_len):
        yield Text(line, style=style, no_wrap=True)
