"""Texts that try to leave the place where they are shown, and long or unusual ones."""

import random

__all__ = ["BENIGN", "STRINGS", "random_text"]

BENIGN = "word"  # what a picture is compared with: a hostile text must not change its structure
_MEGABYTE = 1_000_000

STRINGS: dict[str, str] = {
    # the end of an element, an attribute or a comment
    "script closer": "</script><script>document.title='owned'</script>",
    "style closer": "</style><style>*{display:none}</style>",
    "title closer": "</title></head><body onload=alert(1)>",
    "textarea and cdata": "</textarea>]]><![CDATA[<b>",
    "comment": "<!--<script>--!><b>-->",
    "image with handler": "<img src=x onerror=alert(1)>",
    "svg with handler": "<svg/onload=alert(1)>",
    "attribute breaker": "\"' onmouseover=alert(1) x='\"`",
    "entity": "&lt;&amp;amp;&#0;&#x202e;&nosuch;",
    "doctype": '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]>&b;',
    "template": "${1}{{2}}{0}%s%n{site}{head}",
    "javascript address": "javascript:alert(1)",
    "markdown": "[a](javascript:alert(1)) ![b](//x) | c |\n---\n```",
    "rich markup": "[link=https://x.test]a[/link][bold red]b :smile: [/",
    # sequences that a terminal obeys
    "colour": "\x1b[38;5;199mpink\x1b[0m",
    "erase": "\x1b[2J\x1b[H\x1b[1A\x1b[K",
    "window title": "\x1b]0;owned\x07",
    "hyperlink": "\x1b]8;;https://x.test\x1b\\a\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;b3duZWQ=\x07",
    "device control": '\x1bP$q"p\x1b\\\x1b_a\x1b\\\x1b^b\x1b\\',
    "c1": "\x9b31m\x9d0;owned\x9c\x90\x85\x8d",
    "backspace": "safe\b\b\b\bevil\r\x0b\x0c\x7f",
    "bells": "\x07\x0e\x0f\x05",
    "carriage return": "100%\rregard: done\r\nnext",
    "tabs and lines": "a\tb\nregard: forged\n\n",
    "nul": "a\0b",
    # text that hides or reorders text
    "bidi override": "\u202egnp.exe\u202c",
    "bidi isolates": "\u2066a\u2067b\u2068c\u2069\u200e\u200f\u061c",
    "separators": "a\u2028b\u2029c",
    "zero width": "a\u200bb\u200c\u200dc\u2060\ufeff\xad",
    "tags": "a\U000e0068\U000e0069\U000e007f",
    "hidden selectors": "a\ufe00\ufe01\ufe0f\U000e0100\U000e0101",
    "lone surrogates": "\ud800a\udfff\udc80",
    "noncharacters": "\ufffe\uffff\U0001ffff",
    # formulas and other formats
    "formula": "=cmd|'/c calc'!A0",
    "formula plus": "+1+1",
    "formula minus": "-2+3",
    "formula at": "@SUM(A1:A2)",
    "formula tab": "\t=1",
    "apostrophes": "''=1",
    "csv breaker": 'a,"b"\n"c;d\te',
    "json breaker": '"}],"\\u0000\\": [{',
    "number": "1e309",
    "path": "../../..//etc/passwd\\..",
    # texts that must stay as they are
    "chinese": "我爱中国。“你好”",
    "emoji": "👨‍👩‍👧❤️‍🔥1️⃣🏴",
    "right to left": "שלום עולם مرحبا می‌خواهم",
    "indic": "क्‍ष हिन्दी",
    "tower of marks": "a" + "\u0301\u0323" * 300,
    "empty": "",
    "space": " ",
    "piece marks": "▁##</w>Ġ<0x1b>爱[1/3]",
    # long texts
    "megabyte": "x" * _MEGABYTE,
    "megabyte of controls": "\x1b" * _MEGABYTE,
    "megabyte of marks": "a" + "\u0301" * _MEGABYTE,
    "megabyte of chinese": "爱" * _MEGABYTE,
    "megabyte of words": "<b> " * (_MEGABYTE // 4),
    "megabyte of stops": "." * _MEGABYTE,
}

_PIECES = [text for text in STRINGS.values() if 0 < len(text) < 100]


def random_text(generator: random.Random) -> str:
    """Parts of hostile texts and any characters, joined at random."""
    parts = []
    for _ in range(generator.randint(1, 6)):
        piece = generator.choice(_PIECES)
        start = generator.randrange(len(piece))
        parts.append(piece[start : start + generator.randint(1, 30)])
        parts.append(
            chr(generator.choice((generator.randrange(0x100), generator.randrange(0x11000))))
        )
    return "".join(parts)
