import re

import matplotlib
import pytest
from fontTools.ttLib import TTFont

from regard.views.figure import fonts
from regard.views.figure.fonts import drawable_text, face_of, font_properties


def hanzi(code: str, first: int, last: int) -> str:
    pairs = ((row, cell) for row in range(first, last) for cell in range(0xA1, 0xFF))
    return "".join(bytes(pair).decode(code, "ignore") for pair in pairs)


@pytest.mark.parametrize(
    "characters",
    [
        hanzi("gb2312", 0xB0, 0xF8),
        hanzi("euc_kr", 0xB0, 0xC9),
        hanzi("euc_jp", 0xB0, 0xD0),
        "ぁあんァアン、。「」，！？：；（）《》…—“”‘’",
        "AZaz09éßñøабвαβγ→−×·",
    ],
    ids=["GB 2312", "Hangul", "kanji", "kana", "letters"],
)
def test_the_packaged_font_has_the_characters(characters):
    assert len(characters) > 15
    assert {face_of(each).family for each in characters} == {fonts.PACKAGED_FAMILY}


def test_the_packaged_font_is_small_and_its_licence_lies_beside_it():
    place = face_of("爱").path
    assert place.stat().st_size < 4 * 2**20
    assert "SIL OPEN FONT LICENSE" in place.with_name("OFL.txt").read_text()
    assert "Open Font License" in TTFont(place)["name"].getDebugName(13)


def test_what_no_font_has_is_spelled_not_boxed():
    assert drawable_text("a\ue0ff\U0010fffe") == "aU+E0FFU+10FFFE"


def test_controls_and_line_breaks_are_spelled():
    assert drawable_text("\n\t\x12\ud800") == "\\n\\tU+0012U+D800"


def test_a_selector_of_pictures_leaves_nothing_behind():
    assert drawable_text("→\ufe0f") == "→"


def test_each_font_is_asked_for_only_if_a_character_needs_it():
    assert font_properties("爱 love", 7).get_family() == [
        fonts.PACKAGED_FAMILY,
        fonts.MATPLOTLIB_FAMILY,
    ]
    assert face_of("ע").family != fonts.PACKAGED_FAMILY


def test_a_font_without_outlines_is_passed_over(tmp_path):
    broken = tmp_path / "broken.ttf"
    broken.write_bytes(b"no font")
    assert fonts._system_face(broken, 0, "Broken") is None


def test_a_font_of_the_system_is_found_for_what_ours_lacks(monkeypatch):
    dejavu = fonts._packaged_faces()[1]
    system = fonts.Face("System Sans", dejavu.path, 0, frozenset({0xE123}))
    monkeypatch.setattr(
        fonts, "_system_fonts", lambda: matplotlib.font_manager.fontManager.ttflist[:1]
    )
    monkeypatch.setattr(fonts, "_system_face", lambda *place: system)
    assert fonts.face_of.__wrapped__("\ue123") is system


def test_the_readme_says_how_many_characters_there_are():
    place = face_of("爱").path
    count = len(TTFont(place).getBestCmap())
    assert re.search(rf"{count:,} characters", place.with_name("README.md").read_text())
