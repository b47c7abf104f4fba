"""Reads the sentences of this folder's JSON files, and fills in their values."""

import json
from functools import cache
from pathlib import Path

from regard.errors import UnknownNameError

LANGUAGES = ("en", "zh")

_FOLDER = Path(__file__).parent


def say(key: str, language: str | None, /, **values: object) -> str:
    """The sentence of a key in a language, with its values filled in; None is English.

    >>> from regard.text import say
    >>> say("view.heatmap", "zh")
    '热力图'
    """
    # str.format never looks inside the values, so a token such as "{head}" stays as it is
    return template(key, language).format(**values)


def template(key: str, language: str | None) -> str:
    """The sentence of a key in a language, with its placeholders still empty.

    >>> from regard.text import template
    >>> template("caption.head", "en")
    '{site}, head {head}.'
    """
    by_language = _by_key().get(key)
    if by_language is None:
        # of some hundred keys name those that begin with the same word
        alike = [known for known in _by_key() if known.split(".")[0] == key.split(".")[0]]
        raise UnknownNameError("sentence", key, alike or _by_key())
    return by_language[_known_language(language)]


def sentences(*areas: str) -> dict[str, dict[str, str]]:
    """All sentences of some areas, by language and then by key, placeholders still empty.

    >>> from regard.text import sentences
    >>> sentences("tables")["zh"]["table.sort"]
    '按此列排序'
    """
    for area in areas:
        if area not in _by_area():
            raise UnknownNameError("area of sentences", area, _by_area())
    return {
        language: {key: text[language] for area in areas for key, text in _by_area()[area].items()}
        for language in LANGUAGES
    }


def _known_language(language: str | None) -> str:
    if language is None:
        return LANGUAGES[0]
    if language not in LANGUAGES:
        raise UnknownNameError("language", language, LANGUAGES)
    return language


@cache
def _by_area() -> dict[str, dict[str, dict[str, str]]]:
    """The content of every JSON file, by its name."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(_FOLDER.glob("*.json"))
    }


@cache
def _by_key() -> dict[str, dict[str, str]]:
    return {key: text for area in _by_area().values() for key, text in area.items()}
