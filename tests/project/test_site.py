"""The pages of the site: their code runs and prints what they say, in both languages."""

import ast
import re
from pathlib import Path

import pytest

import pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ENGLISH = sorted(page for page in DOCS.rglob("*.md") if not page.name.endswith(".zh.md"))
OWN = ("architecture", "articles", "faq", "index")
RUN = [
    page
    for page in ENGLISH
    if page.parent.name in ("course", "howto", "reference") or page.stem in OWN
]
PROSE = re.compile(r"^```.*?^```$|`[^`\n]*`|\]\([^)]*\)", flags=re.DOTALL | re.MULTILINE)
SHOWN = re.compile(r"(?<![\w.])\d+(?:\.\d+)?%|(?<![\w.])\d+\.\d+(?![\w.])")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def chinese(page: Path) -> Path:
    return page.with_suffix(".zh.md")


def uncommented(text: str) -> str:
    return re.sub(r"\s+#.*", "", text)


def name(page: Path) -> str:
    return str(page.relative_to(DOCS))


def code(page: Path, language: str) -> list[str]:
    if not page.is_file():
        return []
    return [
        each.text for each in pages.blocks(page.read_text("utf-8")) if each.language == language
    ]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=name)
def test_the_code_of_a_page_runs_and_prints_what_stands_there(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for output in pages.run(page):
        assert pages.same(output.expected, output.printed), output.printed


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in map(chinese, ENGLISH) if code(page, "console")], ids=name
)
def test_the_commands_of_a_chinese_page_print_what_stands_there(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for output in pages.run(page, languages=["console"]):
        assert pages.same(output.expected, output.printed), output.printed


@pytest.mark.parametrize("page", [each for each in ENGLISH if chinese(each).is_file()], ids=name)
def test_a_chinese_page_shows_the_code_and_the_output_of_the_english_one(page):
    other = chinese(page)
    trees = [[ast.dump(ast.parse(text)) for text in code(each, "python")] for each in (page, other)]
    assert trees[0] == trees[1]
    outputs = [[uncommented(text) for text in code(each, "text")] for each in (page, other)]
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("page", ENGLISH, ids=name)
def test_every_page_is_there_in_chinese(page):
    assert chinese(page).is_file()


@pytest.mark.parametrize("page", [*ENGLISH, *filter(Path.is_file, map(chinese, ENGLISH))], ids=name)
def test_links_and_pictures_lead_somewhere(page):
    text = PROSE.sub(lambda found: found[0] if found[0].startswith("](") else "", page.read_text())
    targets = [target for target in LINK.findall(text) if not target.startswith("http")]
    assert [target for target in targets if not (page.parent / target).is_file()] == []


@pytest.mark.parametrize("page", RUN, ids=name)
def test_a_number_in_the_text_is_one_that_was_computed(page):
    text = page.read_text("utf-8")
    cards = "".join(card.read_text("utf-8") for card in ROOT.glob("src/regard/zoo/*/README.md"))
    known = cards + "".join(each.text for each in pages.blocks(text))
    for number in SHOWN.findall(PROSE.sub("", text)):
        assert number in known, f"{number} stands in the text, but nothing computes it"


def test_a_difference_in_the_last_digit_is_rounding_and_any_other_is_not():
    assert pages.same("爱 0.762 71%", "爱  0.763 71%\n")
    assert not pages.same("爱 0.762 71%", "爱 0.764 71%")
    assert not pages.same("爱 0.762 71%", "爱 0.762 72%")
    assert not pages.same("爱 0.762", "我 0.762")


def test_the_pictures_of_the_course_are_those_that_the_script_makes():
    made = (ROOT / "tools" / "make_course_pictures.py").read_text()
    known = set(re.findall(r'^    "([\w-]+)": ', made, flags=re.MULTILINE))
    there = {page.name for page in (DOCS / "course" / "pictures").iterdir()}
    assert there == {f"{each}{ending}.png" for each in known for ending in ("", ".zh")}


@pytest.mark.parametrize("page", ["architecture.md", "architecture.zh.md"])
def test_the_page_on_the_architecture_names_every_package(page):
    source = ROOT / "src" / "regard"
    packages = {place.stem for place in source.iterdir() if any(place.glob("*.py"))}
    modules = {place.stem for place in source.glob("*.py") if not place.stem.startswith("_")}
    named = re.findall(r"^\| `(\w+)` \|", (DOCS / page).read_text("utf-8"), flags=re.MULTILINE)
    assert {*named} == packages | modules
