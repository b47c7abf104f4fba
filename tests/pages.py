"""The code of a page of the documents: found, run, and its output compared with what stands there.

A `text` block right after a `python` block is what that block prints. In a `console` block a line
`$ regard …` is run, and what follows it is what it prints; other commands are not run.

Run: python tests/pages.py docs/course/02-three-steps.md … writes the outputs into the pages anew.
"""

import contextlib
import io
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from click.testing import CliRunner

FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.(\d+))?")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, what stands in it, and where that begins and ends."""

    language: str
    text: str
    start: int
    stop: int


@dataclass(frozen=True)
class Output:
    """What a page says is printed, beside what was printed."""

    block: Block
    expected: str
    printed: str


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in their order."""
    return [Block(m[1], m[2], m.start(2), m.end(2)) for m in FENCE.finditer(text)]


def run(page: Path, languages: Sequence[str] = ("python", "console")) -> Iterator[Output]:
    """Run the code of a page from top to bottom; give each output that the page shows."""
    text = page.read_text("utf-8")
    names: dict[str, Any] = {"__name__": page.stem}
    found = blocks(text)
    for block, after in zip_longest(found, found[1:]):
        if block.language not in languages:
            continue
        if block.language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block.text, page.name, "exec"), names)  # noqa: S102  our own page
            if after and after.language == "text" and _adjoin(text, block, after):
                yield Output(after, after.text, printed.getvalue())
        else:
            yield Output(block, block.text, _session(block.text))


def _adjoin(text: str, block: Block, after: Block) -> bool:
    between = text[block.stop : after.start]
    return not between.replace("`", "").removeprefix("\n").strip().removeprefix("text").strip()


def _session(text: str) -> str:
    """A console block as it comes out when its commands are run again."""
    commands = re.split(r"^(?=\$ )", text, flags=re.MULTILINE)
    return "".join(map(_typed, filter(None, commands)))


def _typed(entered: str) -> str:
    line, _, shown = entered.partition("\n")
    words = shlex.split(line.removeprefix("$ "), comments=True)
    if words[0] != "regard":
        return entered
    from regard.cli import main

    runner = CliRunner(env={"COLUMNS": "80"})
    ran = runner.invoke(main, words[1:], prog_name="regard", terminal_width=78)
    if ran.exit_code not in (0, 2) or (ran.exit_code and "regard:" not in shown):
        raise AssertionError(f"{line} ended with {ran.exit_code}: {ran.output}") from ran.exception
    printed = "".join(f"{each.rstrip()}\n" for each in ran.output.splitlines())
    return f"{line}\n{printed}" if shown.strip() else entered


def same(expected: str, printed: str) -> bool:
    """Whether two outputs are the same; numbers may differ by one in their last digit shown."""
    first, second = (
        [" ".join(line.split()) for line in text.strip().splitlines()]
        for text in (expected, printed)
    )
    if [NUMBER.sub("#", line) for line in first] != [NUMBER.sub("#", line) for line in second]:
        return False
    pairs = zip(NUMBER.finditer("\n".join(first)), NUMBER.finditer("\n".join(second)), strict=True)
    return all(_near(one, other) for one, other in pairs)


def _near(one: re.Match[str], other: re.Match[str]) -> bool:
    digits = len(one[1] or "")
    if len(other[1] or "") != digits:
        return False
    slack = 1.01 * 10.0**-digits if digits else 0.0
    return abs(float(one[0]) - float(other[0])) <= slack


def refresh(page: Path) -> None:
    """Write what the code prints today into the page."""
    text = page.read_text("utf-8")
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        found = [*run(page)]
    for output in reversed(found):
        block = output.block
        text = text[: block.start] + output.printed.strip("\n") + "\n" + text[block.stop :]
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        refresh(Path(name).resolve())
