"""Make the pictures of the course, in English and Chinese: docs/course/pictures/*.png.

Run: python tools/make_course_pictures.py [NAME …]; without names, all of them.
"""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F
from PIL import Image, ImageChops, ImageOps
from torch import Tensor

import regard
from regard.attention import CosineScore, DotScore, Mechanism, PositionalEncoding, ScaledDotScore
from regard.masks import causal, window
from regard.models import Pretrained
from regard.tracing import AttentionCall, Edit, uniform
from regard.types import Trace
from regard.views import View

PLACE = Path(__file__).parents[1] / "docs/course/pictures"
PIZZA = "My father likes pizza very much."
ABSTRACT = (
    "We present a parser that reads text in one pass. The parser is fast, and it works for many "
    "languages. On nine treebanks it is more accurate than others."
)
SIZE, COLOURS, MARGIN = 0.55, 256, 24
Draw = Callable[[str], View]


@cache
def model(name: str) -> Pretrained:
    """A shipped model."""
    return regard.from_pretrained(name)


@cache
def trace(name: str, text: str, edit: Any = None, target: str | None = None) -> Trace:
    """What a shipped model did with a sentence."""
    asked: dict[str, Any] = {"generate": True} if target is None else {"target": target}
    return regard.capture(model(name), model(name).tokenizer, text, edit=edit, **asked)


def hardened(call: AttentionCall) -> Edit:
    """All weight of a row on its largest place."""
    weights = call.weights()
    return Edit(weights=F.one_hot(weights.argmax(dim=-1), weights.shape[-1]).to(weights))


FLAT = uniform("reader")


def three_steps(language: str) -> View:
    """The weights of `regard explain "我 爱 中国"`; its vectors are random."""
    vectors = torch.tensor(
        [
            [1.541, -0.293, -2.179, 0.568],
            [-1.085, -1.399, 0.403, 0.838],
            [-0.719, -0.403, -0.597, 0.182],
        ]
    )
    weights = regard.weights(vectors, vectors)
    return regard.heatmap(
        Trace.from_weights({"scaled-dot": weights[None]}, ["我", "爱", "中国"]), language=language
    )


def soft_and_hard(language: str) -> View:
    """The recurrent translator's weights, and the same made hard, for one translation."""
    written = "我父亲非常喜欢比萨。"
    soft, hard = (trace("en-zh-rnn", PIZZA, edit, written) for edit in (None, hardened))
    return regard.compare(soft, hard, "reader", 0, language=language)


def masks(language: str) -> View:
    """Three masks, their rows shared equally among the keys that are seen."""
    same = torch.zeros(12, 4)
    shown = [window(1, 1), causal(), causal() & window(2, 0)]
    weights = torch.stack([regard.weights(same, same, mask=mask) for mask in shown])
    return regard.heads(Trace.from_weights(weights, [*map(str, range(12))]), language=language)


def scores(language: str) -> View:
    """One query and six keys of the recurrent translator's table under three scores."""
    words = ["我", "你", "她", "爱", "书", "车"]
    target = model("en-zh-rnn").tokenizer.target
    table = model("en-zh-rnn").words.table.weight.detach()
    query, keys = (table[target.convert_tokens_to_ids(each)] for each in (["他"], words))
    rows = [DotScore(), ScaledDotScore(), CosineScore(temperature=0.1)]
    weights = torch.cat([regard.weights(query, keys, Mechanism(score)) for score in rows])
    named = Trace.from_weights({"他": weights[None]}, ["dot", "scaled dot", "cosine"], words)
    return regard.heatmap(named, language=language)


def positions(language: str) -> View:
    """Positional encodings compared with each other by their angle."""
    waves = PositionalEncoding(256, dropout=0.0).table[:16]
    weights = regard.weights(waves, waves, Mechanism(CosineScore(temperature=0.1)))
    return regard.heatmap(
        Trace.from_weights({"sinusoidal": weights[None]}, [*map(str, range(16))]), language=language
    )


def atlas(language: str) -> View:
    """One head of the encoder over a text that repeats a sentence."""
    translator: Any = model("en-zh-transformer")
    lines = [f"Tom has {n} books. Mary reads one every day." for n in range(5)]
    inputs = translator.tokenizer(" ".join(lines), return_tensors="pt")
    pieces = translator.tokenizer.source.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
    with torch.no_grad(), regard.watch(translator.encoder) as seen:
        translator.encoder(translator.encoder.embeddings(inputs["input_ids"]))
    weights: Tensor = seen[0]["layers.1.attention"].weights(2)
    return regard.heatmap(
        Trace.from_weights({"encoder.layers.1.attention": weights[None]}, pieces),
        scale="log",
        language=language,
    )


def encoded(text: str) -> tuple[list[str], Tensor]:
    """The words of a text and their vectors by the shipped encoder, without special tokens."""
    encoder: Any = model("trunk-en")
    encoding = encoder.tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        hidden = encoder(encoding["input_ids"], encoding["attention_mask"])
    return encoding.tokens()[1:-1], hidden[0, 1:-1]


def reading(language: str) -> View:
    """What the words of a question find in a text, by the cosine of their vectors."""
    asked, question = encoded("When did she write it?")
    known, text = encoded("Ada was born in London. She wrote the first program in 1843.")
    weights = regard.weights(question, text, Mechanism(CosineScore(temperature=0.1)))
    named = Trace.from_weights({"trunk-en, cosine": weights[None]}, asked, known)
    return regard.heatmap(named, language=language)


def copying(language: str) -> View:
    """A summary's coverage of its text, with the copied words underlined."""
    return regard.view(regard.summarise(ABSTRACT, device="cpu"), language=language)


def claims(language: str) -> View:
    """The words of one sentence by the attention of pooling and by occlusion."""
    result = regard.classify("The actors are good, the story is terrible.", device="cpu")
    pooling = result.trace["head.attentive"]
    assert result.evidence is not None
    assert result.evidence.attribution is not None
    falls = result.evidence.attribution.values.nan_to_num(nan=0.0).clamp_min(0.0).float()
    weights = torch.stack([pooling.weights(head=0)[0], falls / falls.sum()])[:, 1:-1]
    words = result.trace.tokens(pooling.columns).texts[1:-1]
    shares = weights / weights.sum(dim=1, keepdim=True)
    named = Trace.from_weights({"sentiment-en": shares[None]}, ["attention", "occlusion"], words)
    return regard.heatmap(named, language=language)


def of(kind: str, name: str, text: str, site: str | None = None, **extras: Any) -> Draw:
    """A view of a sentence as a shipped model translates it."""
    places = {} if site is None else {"site": site}
    return lambda language: getattr(regard, kind)(
        trace(name, text), **places, **extras, language=language
    )


RNN, TRANSFORMER = "en-zh-rnn", "en-zh-transformer"
PICTURES: dict[str, Draw] = {
    "one-vector": of("heatmap", RNN, PIZZA, "reader", hide=["special"]),
    "three-steps": three_steps,
    "soft-and-hard": soft_and_hard,
    "masks": masks,
    "local": of("heatmap", RNN, "I bought a new car last week.", "reader"),
    "scores": scores,
    "love": of("heatmap", RNN, "I love you", "reader"),
    "love-flow": of("flow", RNN, "I love you", "reader", span="time"),
    "self": of("heatmap", TRANSFORMER, PIZZA, "encoder.layers.0.attention"),
    "decoder": of("heatmap", TRANSFORMER, PIZZA, "decoder.layers.0.attention"),
    "heads": of("heads", TRANSFORMER, PIZZA),
    "positions": positions,
    "stack": of("flow", TRANSFORMER, PIZZA, "encoder.layers.2.attention", span="all"),
    "writing": of("flow", TRANSFORMER, PIZZA, "decoder.layers.0.cross", span="time"),
    "atlas": atlas,
    "same-output": lambda language: regard.compare(
        trace(RNN, "I love you."),
        trace(RNN, "I love you.", FLAT),
        "reader",
        0,
        language=language,
    ),
    "reading": reading,
    "copying": copying,
    "claims": claims,
}


def shrunk(large: Path, place: Path) -> None:
    """The picture without empty borders, about half as large, in few colours."""
    with Image.open(large) as opened:
        picture = opened.convert("RGB")
    inked = ImageChops.invert(picture).getbbox()
    picture = ImageOps.expand(picture.crop(inked), MARGIN, "white")
    sizes = [round(side * SIZE) for side in picture.size]
    picture = picture.resize((sizes[0], sizes[1]), Image.Resampling.LANCZOS)
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(place, optimize=True)


def main() -> None:
    """Draw the pictures that are named, or all."""
    PLACE.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        for name in sys.argv[1:] or PICTURES:
            for language, ending in (("en", ""), ("zh", ".zh")):
                large = PICTURES[name](language).save(Path(folder) / "large.png")
                shrunk(large, PLACE / f"{name}{ending}.png")


if __name__ == "__main__":
    main()
