"""Text goes to a terminal in regard/terminal.py alone, where it is made harmless."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "regard"
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "terminal.py"]
# Functions and methods that write to stdout or stderr, and classes of rich that make a console.
WRITERS = {
    "print", "print_exc", "pprint", "echo", "secho", "echo_via_pager", "prompt", "confirm",
    "Console", "get_console",
}  # fmt: skip
NEED_A_CONSOLE = {"Progress", "Live", "Status"}


def direct_writes(code: str) -> list[str]:
    """The calls of a file that write to stdout or stderr themselves."""
    return [
        f"line {node.lineno}: {ast.unparse(node.func)}"
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call) and is_direct_write(node, code)
    ]


def is_direct_write(call: ast.Call, code: str) -> bool:
    name = ast.unparse(call.func)
    owner, _, last = name.rpartition(".")
    if last in NEED_A_CONSOLE and "from rich" in code:  # others have classes of these names too
        return not any(keyword.arg == "console" for keyword in call.keywords)
    if name.startswith(("sys.stdout.", "sys.stderr.", "sys.__std", "os.write")):
        return last in ("write", "writelines")
    # a console from make_console prints by its method `print`
    return last in WRITERS and not (
        last == "print" and owner.endswith(("console", "make_console()"))
    )


def test_a_module_prints_through_the_terminal_module_only():
    writes = {str(file.relative_to(SOURCE)): direct_writes(file.read_text()) for file in FILES}
    assert {file: calls for file, calls in writes.items() if calls} == {}


@pytest.mark.parametrize(
    "code",
    [
        "print(1)",
        "import click; click.echo(text)",
        "import sys; sys.stderr.write(text)",
        "sys.stdout.buffer.write(text)",
        "rich.console.Console()",
        "Console(stderr=True).print(text)",
        "from rich.progress import Progress; Progress(BarColumn())",
        "rich.print(text)",
        "traceback.print_exc()",
    ],
)
def test_direct_writes_are_recognised(code):
    assert direct_writes(code)


@pytest.mark.parametrize(
    "code",
    [
        "print_line(text)",
        "console.print(text)",
        "from rich import Progress; Progress(console=console)",
        "x.write(y)",
    ],
)
def test_other_calls_are_allowed(code):
    assert direct_writes(code) == []
