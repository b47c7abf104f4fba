import io
import json
import subprocess
import sys

import pytest
from rich.table import Table
from rich.text import Text

from regard.cli.output import print_json
from regard.terminal import (
    clear_line,
    make_console,
    overwrite_line,
    print_line,
    print_pieces,
    print_text,
)

HOSTILE = "a\x1b]0;title\x07\x9b2J\u202e\u2028\U000e0041b"
HARMLESS = "a\ufffd]0;title\ufffd\ufffd2J\ufffd\ufffd\ufffdb"


def printed_by_rich(renderable, capsys):
    make_console().print(renderable)
    return capsys.readouterr().out


def test_a_line_holds_no_control_and_stays_one_line(capsys):
    print_line(f"{HOSTILE}\r\n\tend")
    assert capsys.readouterr().out == f"{HARMLESS}\ufffd\ufffd\ufffdend\n"


def test_a_text_keeps_its_lines_and_tabs(capsys):
    print_text(f"1\t2\n{HOSTILE}", err=True)
    assert capsys.readouterr().err == f"1\t2\n{HARMLESS}\n"


def test_pieces_that_split_an_emoji_print_it_whole(capsys):
    print_pieces(["👨", "\u200d", "👩", "\x1b", "[2J", "\u200d"])
    assert capsys.readouterr().out == "👨\u200d👩\ufffd[2J\ufffd\n"


def test_a_status_line_has_our_own_codes_only(capsys):
    overwrite_line(HOSTILE)
    clear_line()
    written = capsys.readouterr().err
    # click removes codes where stderr is no terminal
    assert written.replace("\x1b[K", "") == f"\r{HARMLESS}\r"


@pytest.mark.parametrize("wrap", [str, Text, lambda text: Text(text, style="bold red")])
def test_a_console_prints_no_control_of_a_text(wrap, capsys):
    # rich itself drops BEL
    assert printed_by_rich(wrap(HOSTILE), capsys).replace("\ufffd", "") == "a]0;title2Jb\n"


def test_a_console_prints_no_control_of_a_table_cell(capsys):
    table = Table()
    table.add_column(HOSTILE)
    table.add_row(HOSTILE)
    assert not {*"\x1b\x07\x9b\u202e\u2028"} & {*printed_by_rich(table, capsys)}


def test_a_name_with_markup_stays_a_name(capsys):
    assert printed_by_rich("[link=https://x]a[/link] :smile:", capsys) == (
        "[link=https://x]a[/link] :smile:\n"
    )


def test_text_written_without_layout_is_harmless_too(capsys):
    make_console().out(HOSTILE)
    assert capsys.readouterr().out == f"{HARMLESS}\n"


def test_colours_are_kept_around_replaced_characters(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    make_console().print(Text("\x1b[2Jb", style="red"))
    assert stream.getvalue() == "\x1b[31m\ufffd[2Jb\x1b[0m\n"


def test_json_on_stdout_escapes_controls_and_drops_none(capsys):
    value = {HOSTILE: ["👨\u200d👩", "x\ufe0f\ufe0f\u200d", "\ud800", "中"]}
    print_json(value, indent=2)
    text = capsys.readouterr().out
    assert json.loads(text) == value
    assert not {*"\x1b\x07\x9b\u202e\u2028\ud800\ufffd"} & {*text}
    assert "中" in text


def test_neither_click_nor_rich_is_loaded_before_something_is_printed():
    code = "import sys, regard.terminal; print({'click', 'rich'} & {*sys.modules})"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"
