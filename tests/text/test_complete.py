"""Every sentence is there in both languages and used; every sentence that is used is there."""

import ast
import re
import string
from pathlib import Path

import pytest

from regard.text import LANGUAGES, sentences, template

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "src" / "regard" / "text"
AREAS = sorted(path.stem for path in FOLDER.glob("*.json"))
KEYS = sorted(sentences(*AREAS)["en"])

# Beginnings of keys that code puts together, as in f"kind.{site.kind}". Each is found in the
# source as the beginning of an f-string or a TypeScript template; the test below looks for it.
PREFIXES = (
    "axis.",
    "base.",
    "caption.flow.",
    "caption.hide.",
    "caption.highlight.",
    "caption.rows.",
    "caption.scale.",
    "caption.unit.",
    "check.",
    "depth.",
    "diagnosis.",
    "diagnosis.often.",
    "evaluate.",
    "explain.step.",
    "hide.",
    "info.stored.",
    "kind.",
    "label.",
    "mechanisms.family.",
    "mechanisms.label.",
    "models.group.",
    "models.label.",
    "models.task.",
    "report.",
    "result.by-",
    "scale.",
    "severity.",
    "span.",
    "survey.column.",
    "survey.hint.",
    "survey.measure.",
    "theme.",
    "train.end.",
    "unit.",
    "view.",
)
# The toolbar of the page names the choices of a control `${name}.${value}`.
TOOLBAR = ("depth.", "hide.", "label.", "scale.", "span.", "unit.")


def constants(tree):
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def beginnings(tree):
    """The constant beginnings of all f-strings."""
    found = [node.values[0] for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    return {first.value for first in found if isinstance(first, ast.Constant)}


def said(tree):
    """The keys that stand as text in calls of `say` and `template`, by whatever name they go."""
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "regard.text"
        for alias in node.names
        if alias.name in ("say", "template")
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in names and node.args:
            key = node.args[0]
            if isinstance(key, ast.Constant):
                yield key.value


TREES = [
    ast.parse(path.read_text("utf-8")) for path in sorted((ROOT / "src" / "regard").rglob("*.py"))
]
FRONT = "\n".join(
    path.read_text("utf-8") for path in sorted((ROOT / "front" / "src").rglob("*.ts"))
)
USED = {text for tree in TREES for text in constants(tree)}
USED |= set(re.findall(r'"([\w.-]+)"', FRONT))
BEGUN = {text for tree in TREES for text in beginnings(tree)}
BEGUN |= set(re.findall(r"`([\w.-]+\.)\$\{", FRONT)) | {*TOOLBAR}


def placeholders(text):
    """What is to be filled in, and how its numbers are written."""
    parts = [(name, spec) for _, name, spec, _ in string.Formatter().parse(text) if name]
    return sorted(parts)


@pytest.mark.parametrize("area", AREAS)
def test_every_sentence_is_there_in_both_languages_with_the_same_placeholders(area):
    english, chinese = (sentences(area)[language] for language in LANGUAGES)
    assert all(english.values())
    assert all(chinese.values())
    for key, text in english.items():
        assert {*placeholders(text)} == {*placeholders(chinese[key])}, key


def test_a_key_belongs_to_one_area():
    counted = [key for area in AREAS for key in sentences(area)["en"]]
    assert len(counted) == len({*counted})


def test_chinese_is_chinese():
    # the button that changes to English names English, and a value without words stays itself
    ascii_only = [key for key in KEYS if re.sub(r"\{.*?\}|\W", "", template(key, "zh")).isascii()]
    without_words = [key for key in ascii_only if re.sub(r"\{.*?\}|\W", "", template(key, "zh"))]
    assert without_words == ["control.language"]


def test_sentences_of_the_page_have_plain_placeholders_that_typescript_can_fill():
    for key, text in sentences("page", "views", "findings")["en"].items():
        assert all(spec == "" for _, spec in placeholders(text)), key


def test_every_key_is_used_in_python_or_on_the_page():
    unused = [key for key in KEYS if key not in USED and not key.startswith(PREFIXES)]
    assert unused == []


def test_every_declared_beginning_is_used_and_begins_some_key():
    for prefix in PREFIXES:
        assert prefix in BEGUN, prefix
        assert any(key.startswith(prefix) for key in KEYS), prefix


def test_every_key_that_is_said_exists():
    keys = [key for tree in TREES for key in said(tree)]
    assert keys
    assert [key for key in keys if key not in KEYS] == []


def test_every_key_of_the_page_exists():
    named = re.findall(r'\bsay\(\s*"([\w.-]+)"', FRONT) + re.findall(
        r'\[\s*"(caption[\w.-]+)"', FRONT
    )
    assert named
    assert [key for key in named if key not in KEYS] == []
