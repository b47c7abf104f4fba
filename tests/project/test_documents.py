"""What the documents show is run, and what they promise is there."""

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard.cli import main  # noqa: F401  the command that the documents show

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "README.zh-CN.md"]
PAGES = [
    f"docs/{name}.md"
    for name in ("diagnosis", "measures", "models", "survey", "tasks", "training", "watching")
]
MODULES = [
    ".".join(file.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for file in sorted((ROOT / "src").rglob("*.py"))
    if file.stem != "__main__"
]


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("document", [*DOCUMENTS, *PAGES])
def test_the_code_of_the_documents_runs(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = blocks(document, "python")
    assert code
    for block in code:
        exec(compile(block, document, "exec"), {})  # noqa: S102  our own document


def test_the_gallery_runs_from_top_to_bottom():
    document = "docs/gallery.md"
    exec(compile("\n".join(blocks(document, "python")), document, "exec"), {})  # noqa: S102


def test_the_pictures_of_the_documents_are_there():
    for document in [*DOCUMENTS, "docs/gallery.md"]:
        place = (ROOT / document).parent
        for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (ROOT / document).read_text()):
            assert (place / picture).is_file(), picture


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_commands_of_the_readme_run(document, tmp_path):
    commands = [line for block in blocks(document, "bash") for line in block.splitlines()]
    ours = [line.split("#")[0] for line in commands if line.startswith("regard ")]
    assert ours
    for line in ours:
        command = f"{sys.executable} -m {line}"
        ran = subprocess.run(  # noqa: S602
            command, shell=True, capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_readme_shows_the_two_commands(document):
    text = (ROOT / document).read_text()
    assert "make demo" in text
    assert "make test" in text


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_docstrings_run(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_the_changelog_knows_this_version():
    version = regard.__version__.split(".dev")[0]
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


def test_make_runs_what_the_hooks_and_the_ci_run():
    makefile, ci = (ROOT / "Makefile").read_text(), (ROOT / ".ci" / "run").read_text()
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert all(f"{target}:" in makefile for target in ("demo", "test", "check", "bench"))
    assert "make check" in ci
    assert "make test" in ci
    assert "make check" in hooks
