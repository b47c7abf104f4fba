"""Findings in the terminal: a list, the worst first, with what each means and what to do."""

from collections import Counter
from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from regard.text import say
from regard.types.finding import SEVERITIES, Finding
from regard.unicode import cut_text
from regard.views.captions import (
    LONGEST_NAME,
    LONGEST_SENTENCE,
    check_label,
    finding_text,
    finding_value,
    site_sentence,
)
from regard.views.scene import Scene
from regard.views.state import ViewState
from regard.views.terminal.style import TerminalStyle
from regard.views.wrapping import wrap_text

SIGNS = {"bug": "■", "warning": "▲", "observation": "○"}
ASCII_SIGNS = {"bug": "!", "warning": "*", "observation": "-"}
COLOURS = {"bug": "red", "warning": "yellow", "observation": "blue"}
INDENT = "  "


def draw_findings(
    scene: Scene, state: ViewState, style: TerminalStyle, width: int
) -> Iterator[Text]:
    """How many findings there are of each severity, then one after the other."""
    findings = scene.findings or ()
    if not findings:
        yield from _wrapped_lines(say("report.none", state.language), style, width)
        return
    counts = Counter(finding.severity for finding in findings)
    totals = [
        f"{say(f'report.{severity}', state.language)} {counts[severity]}"
        for severity in SEVERITIES[::-1]
        if counts[severity]
    ]
    yield from _wrapped_lines(" · ".join(totals), style, width, text_style="bold")
    for finding in findings:
        yield Text("")
        yield from _draw_finding(finding, scene, state, style, width)


def _draw_finding(
    finding: Finding, scene: Scene, state: ViewState, style: TerminalStyle, width: int
) -> Iterator[Text]:
    """One finding: its sentence, facts, meaning, remedy and the code of the remedy."""
    text = finding_text(finding, state.language)
    sign = (ASCII_SIGNS if style.ascii_only else SIGNS)[finding.severity]
    severity = say(f"severity.{finding.severity}", state.language)
    colour = COLOURS[finding.severity] if style.coloured else ""
    title = _named_text(severity, text.sentence, state)
    for index, line in enumerate(_wrapped_lines(title, style, width, text_style="bold")):
        lead = Text(f"{sign} " if index == 0 else INDENT, style=colour)
        yield lead + line
    yield from _indented_lines(_facts(finding, scene, state), style, width, text_style="dim")
    for key, explanation in (("finding.meaning", text.meaning), ("finding.remedy", text.remedy)):
        if explanation:
            named = _named_text(say(key, state.language), explanation, state)
            yield from _indented_lines(named, style, width)
    if finding.remedy_code:
        named = _named_text(say("finding.call", state.language), "", state)
        yield from _indented_lines(named, style, width)
        for code in cut_text(finding.remedy_code, LONGEST_SENTENCE).splitlines():
            yield from _code_lines(code, style, width)


def _named_text(name: str, explanation: str, state: ViewState) -> str:
    """A text after its name, as the language writes it."""
    return say("finding.named", state.language, name=name, text=explanation).rstrip()


def _code_lines(line: str, style: TerminalStyle, width: int) -> Iterator[Text]:
    """A line of code with its own indent; what is too long continues below."""
    bare = line.lstrip()
    indent = INDENT * 2 + line[: len(line) - len(bare)]
    for part in wrap_text(style.printable(bare), max(8, width - len(indent)), cell_len):
        yield Text(indent + part, style="cyan" if style.coloured else "", no_wrap=True)


def _facts(finding: Finding, scene: Scene, state: ViewState) -> str:
    """Where it was found, by which check, with its number and limit."""
    parts = [check_label(finding.check, state.language), finding_value(finding, state.language)]
    if finding.site is not None:
        sites = [site for site in scene.trace(finding.example).sites if site.name == finding.site]
        where = cut_text(finding.site, LONGEST_NAME)
        if sites and finding.head is not None:
            key, values = site_sentence(sites[0], finding.head)
            where = say(key, state.language, **values).rstrip(".。")
        parts.insert(0, where)
    return " · ".join(parts)


def _indented_lines(
    paragraph: str, style: TerminalStyle, width: int, text_style: str = ""
) -> Iterator[Text]:
    """The lines of a paragraph, wrapped and indented below a finding's title."""
    for line in _wrapped_lines(paragraph, style, width, text_style=text_style):
        yield Text(INDENT) + line


def _wrapped_lines(
    paragraph: str, style: TerminalStyle, width: int, text_style: str = ""
) -> Iterator[Text]:
    """The lines of a paragraph, each short enough to be indented."""
    room = max(8, width - len(INDENT))
    for line in wrap_text(style.printable(paragraph), room, cell_len):
        yield Text(line, style=text_style, no_wrap=True)
