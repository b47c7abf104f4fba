"""Traces for the browser tests: small, with sizes that are distinct primes."""

import io
import struct
import zlib

import torch

from regard.types import AttentionMap, Axis, DenseWeights, Tokens, Trace
from regard.views import View
from regard.views.scene import unpack_scene

HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=document.title='owned'>",
    "\u2028",
    "\u202edrawkcab\u202c",
    "<!--",
    "&amp;",
    "'\"`${1}",
    "\x1b]0;owned\x07\x9b2J",
    "a\0b",
    "\ud800",
    "x" * 5000,
)
SIZE, HEADS, LAYERS = 13, 3, 2
WORDS = (
    "[CLS]",
    "the",
    "un",
    "##kind",
    "words",
    ".",
    "我",
    "爱",
    "你",
    "。",
    "long",
    "er",
    "[SEP]",
)


def a_trace(seed=3):
    """Self-attention of two layers and three heads over English and Chinese."""
    torch.manual_seed(seed)
    weights = (2 * torch.randn(LAYERS, HEADS, SIZE, SIZE)).softmax(-1)
    special = tuple(word in ("[CLS]", "[SEP]") for word in WORDS)
    words = (None, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 8, None)
    tokens = Tokens(WORDS, words=words, special=special)
    return Trace.from_weights({f"layer.{each}": weights[each] for each in range(LAYERS)}, tokens)


def a_long_trace(size=1543):
    torch.manual_seed(1)
    key = torch.randn(size, 4)
    weights = (2 * torch.randn(size, 4) @ key.T).softmax(-1)
    return Trace.from_weights({"long": weights[None]}, [f"t{place}" for place in range(size)])


def a_hostile_trace():
    torch.manual_seed(2)
    weights = torch.randn(1, 2, len(HOSTILE), len(HOSTILE)).softmax(-1)
    return Trace.from_weights({"</script><b>site": weights[0]}, list(HOSTILE))


def a_picture(wide=21, high=14):
    """A small PNG of one colour in each quarter."""
    rows = b"".join(
        b"\0"
        + bytes(c for x in range(wide) for c in (200 * (2 * x > wide), 200 * (2 * y > high), 90))
        for y in range(high)
    )

    def chunk(name, data):
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    file = io.BytesIO(b"\x89PNG\r\n\x1a\n")
    file.seek(0, io.SEEK_END)
    file.write(chunk(b"IHDR", struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)))
    file.write(chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    return file.getvalue()


def a_captioned_picture():
    """Three words that look at the 2 x 3 patches of a picture."""
    weights = torch.tensor(
        [[0.5, 0.1, 0.1, 0.1, 0.1, 0.1], [0, 0, 0, 0, 0.25, 0.75], [1 / 6] * 6], dtype=torch.float32
    )
    patches = Tokens(tuple(map(str, range(6))), grid=(2, 3), named=False)
    axes = Axis("words", (0, 1, 2)), Axis("patches", tuple(range(6)))
    map_ = AttentionMap("cross", "cross", *axes, DenseWeights(weights[None]))
    return Trace({"words": Tokens(("a", "red", "sun")), "patches": patches}, (map_,))


def caption(view, **changes):
    """What Python says of the weights as the page holds them."""
    return View(unpack_scene(view.packed), view.with_state(**changes).state).numbers.caption
