"""The language of a text is told from its script."""

import pytest

from regard.tasks.languages import recognise_language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("This movie is wonderful.", "en"),
        ("这部电影很精彩。", "zh"),
        ("iPhone 15 真的很好用", "zh"),
        ("I bought a 茶 in Beijing yesterday", "en"),
        ("10/10 !!! 😀", "en"),
        ("この映画は素晴らしい", None),
        ("Этот фильм прекрасен", None),
        ("영화가 좋다", None),
        ("هذا الفيلم رائع", None),
    ],
)
def test_a_text_is_in_the_language_of_most_of_its_script(text, language):
    assert recognise_language(text) == language
