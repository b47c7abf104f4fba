"""Text generation: ours against transformers and CTranslate2, with the same weights.

The weights are random, of the size of an OPUS-MT model (Marian, 6 + 6 layers, d = 512, 65k tokens)
and of stories15M (Llama); REGARD_BENCH_MARIAN and REGARD_BENCH_LLAMA may name folders of real ones.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from bench.measure import (
    OURS,
    Contender,
    Effort,
    Row,
    Table,
    Target,
    compare,
    memory_row,
    peak_memory,
    time_rows,
)
from regard.models import from_pretrained

HF, CT2 = "transformers", "CTranslate2"
VOCAB, PAD, EOS = 65001, 65000, 0
NEW, PIECES = 24, 128  # new tokens where the weights are random; of a story

TEXTS = (
    "我爱你。",
    "今天天气很好，我们去公园散步吧。",
    "这本书是我去年在北京买的。",
    "请问最近的地铁站在哪里？",
    "科学家们发现了一种新的治疗方法，可以帮助许多病人。",
    "他每天早上六点起床，然后去跑步。",
    "经济增长放缓使许多公司不得不裁员。",
    "我们应该保护环境，减少塑料的使用。",
    "会议将于下周三下午两点在三楼举行。",
    "她从小就喜欢音乐，现在是一名钢琴家。",
    "由于大雪，所有航班都被取消了。",
    "这个问题很复杂，需要更多的时间来讨论。",
    "孩子们在院子里玩得很开心。",
    "政府宣布了一项新的教育政策。",
    "如果你有任何问题，请随时与我联系。",
    "昨天晚上的足球比赛非常精彩，最后一分钟才分出胜负。",
    "老师让学生们写一篇关于家乡的作文。",
    "火车晚点了两个小时，大家都很着急。",
    "医生建议他多喝水，少吃油腻的食物。",
    "他们打算明年春天去日本旅行。",
)


@dataclass(frozen=True)
class Marian:
    """One checkpoint loaded by three libraries: ours, transformers (theirs), CTranslate2 (engine).

    Each method translates a batch of token ids into token ids, without the start token.
    """

    ours: Any
    theirs: Any
    engine: Any
    tokens: Mapping[int, str]
    settings: Mapping[str, int]

    def with_ours(self, batch: Sequence[list[int]], beams: int) -> Tensor:
        """Translate with our own Transformer and generation loop."""
        ids = _padded(batch)
        mask = (ids != PAD).long()
        out = self.ours.generate(ids, mask, num_beams=beams, **self.settings)
        return out.sequences[:, 1:]

    def with_theirs(self, batch: Sequence[list[int]], beams: int) -> Tensor:
        """Translate with transformers."""
        ids = _padded(batch)
        out: Tensor = self.theirs.generate(
            ids, attention_mask=(ids != PAD).long(), num_beams=beams, **self.settings
        )
        return out[:, 1:]

    def with_engine(self, batch: Sequence[list[int]], beams: int) -> Tensor:
        """Translate with CTranslate2, whose output has no end token."""
        words = [[self.tokens[number] for number in ids] for ids in batch]
        asked = {"min_decoding_length": NEW, "max_decoding_length": NEW} if self.settings else {}
        found = self.engine.translate_batch(words, beam_size=beams, **asked)
        numbers = _numbers(self)
        ids = [[numbers[word] for word in each.hypotheses[0]] for each in found]
        return _padded([each if self.settings else [*each, EOS] for each in ids])

    def agreed(self, inputs: Sequence[list[int]], beams: int, count: int) -> list[list[int]]:
        """The first `count` inputs for which all three give the same translation."""
        hands = (self.with_ours, self.with_theirs, self.with_engine)
        chosen: list[list[int]] = []
        for ids in inputs:
            first, *others = (hand([ids], beams).tolist() for hand in hands)
            if all(other == first for other in others):
                chosen.append(ids)
            if len(chosen) == count:
                return chosen
        raise AssertionError(f"only {len(chosen)} of {len(inputs)} inputs are translated alike")


@cache
def _numbers(marian: Marian) -> Mapping[str, int]:
    return {token: number for number, token in marian.tokens.items()}


def _padded(rows: Sequence[list[int]]) -> Tensor:
    length = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD] * (length - len(row))] for row in rows])


def _folder(variable: str, write: Callable[[Path], None]) -> Path:
    """The folder named by the environment variable, or one with random weights, made once."""
    if variable in os.environ:
        return Path(os.environ[variable])
    place = Path(tempfile.gettempdir()) / f"regard-bench-{variable.rpartition('_')[2].lower()}"
    if not (place / "config.json").exists():
        torch.manual_seed(0)
        write(place)
    return place


def _write_marian(place: Path) -> None:
    import transformers

    sizes = {"layers": 6, "attention_heads": 8, "ffn_dim": 2048}
    sides = {f"{side}_{k}": v for side in ("encoder", "decoder") for k, v in sizes.items()}
    config = transformers.MarianConfig(
        vocab_size=VOCAB,
        d_model=512,
        **sides,
        max_position_embeddings=512,
        activation_function="swish",
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
        init_std=0.06,
    )
    transformers.MarianMTModel(config).save_pretrained(place)
    words = {"</s>": EOS, "<unk>": 1, **{f"t{n}": n for n in range(2, PAD)}, "<pad>": PAD}
    (place / "vocab.json").write_text(json.dumps(words))


def _converted(folder: Path, vocabulary: Mapping[str, int]) -> Path:
    """The folder of the checkpoint converted for CTranslate2, made once."""
    import ctranslate2

    class Words:
        eos_token, unk_token = "</s>", "<unk>"

        def get_vocab(self) -> dict[str, int]:
            return dict(vocabulary)

    class Converter(ctranslate2.converters.TransformersConverter):
        def load_tokenizer(self, *_: Any, **__: Any) -> Words:
            return Words()

    place = folder.with_name(f"{folder.name}-ct2")
    if not (place / "model.bin").exists():
        Converter(str(folder)).convert(str(place), force=True)
    return place


@cache
def marian(*hands: str, precision: Literal["float", "int8"] = "float") -> Marian:
    """The checkpoint loaded by these libraries; int8 applies to ours and CTranslate2 only."""
    import ctranslate2
    import transformers

    folder = _folder("REGARD_BENCH_MARIAN", _write_marian)
    real = "REGARD_BENCH_MARIAN" in os.environ
    vocabulary = json.loads((folder / "vocab.json").read_text())
    theirs = engine = None
    if HF in hands:
        load = transformers.MarianMTModel.from_pretrained
        theirs = load(folder, dtype=torch.float32).eval()
    if CT2 in hands:
        engine = ctranslate2.Translator(
            str(_converted(folder, vocabulary)),
            intra_threads=torch.get_num_threads(),
            compute_type="float32" if precision == "float" else "int8",
        )
    return Marian(
        from_pretrained(folder, precision=precision) if OURS in hands else None,
        theirs,
        engine,
        _Frozen((number, token) for token, number in vocabulary.items()),
        _Frozen() if real else _Frozen(min_new_tokens=NEW, max_new_tokens=NEW),
    )


class _Frozen(dict[Any, Any]):
    """A dictionary that is hashed by identity, so that it can be part of a cached call."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def sources() -> list[list[int]]:
    """The inputs to translate: Chinese sentences for real weights, else random ids."""
    if "REGARD_BENCH_MARIAN" in os.environ:
        tokenizer = marian(OURS, HF, CT2).ours.tokenizer
        return [tokenizer.encode(text) for text in TEXTS]
    chance = torch.Generator().manual_seed(1)
    lengths = torch.randint(6, 18, (40,), generator=chance).tolist()
    rows = [torch.randint(2, PAD, (length,), generator=chance).tolist() for length in lengths]
    return [[*row, EOS] for row in rows]


def translating(inputs: Sequence[list[int]], beams: int, *hands: str) -> Mapping[str, Contender]:
    """The libraries as contenders, each translating all inputs as one batch."""
    held = marian(*hands)
    ways = {OURS: held.with_ours, HF: held.with_theirs, CT2: held.with_engine}
    return {name: partial(ways[name], inputs, beams) for name in hands}


def translation_rows(effort: Effort) -> Iterator[Row]:
    """Greedy and beam search, with one sentence and with sixteen."""
    held = marian(OURS, HF, CT2)
    cases = {"greedy, B = 1": (1, 1), "beam 5, B = 1": (5, 1), "beam 5, B = 16": (5, 16)}
    floors = {
        "greedy, B = 1": (1.6, 0.95),
        "beam 5, B = 1": (2.0, 0.95),
        "beam 5, B = 16": (2.0, 0.9),
    }
    with torch.no_grad():
        for label, (beams, count) in cases.items():
            # of one sentence, one of middling length
            inputs = held.agreed(sorted(sources(), key=len), beams, 16)
            inputs = inputs if count > 1 else inputs[10:11]
            contenders = translating(inputs, beams, OURS, HF, CT2)
            timings = compare(contenders, effort.repeats, seconds=3 * effort.seconds)
            targets = {
                peer: Target(floor, at_least=True)
                for peer, floor in zip((HF, CT2), floors[label], strict=True)
            }
            yield from time_rows(timings, label, targets)
        case = partial(translating, inputs, 5)
        warm = partial(translating, inputs[:1], 1)
        peaks = [
            peak_memory(partial(case, name), name, warm=partial(warm, name)) for name in (OURS, HF)
        ]
        yield memory_row("beam 5, B = 16", HF, Target(0.7), *peaks)


def light_rows(effort: Effort) -> Iterator[Row]:
    """One sentence in int8 by ours and CTranslate2, against transformers in float32."""
    light, whole = marian(OURS, CT2, precision="int8"), marian(HF)
    held = replace(light, theirs=whole.theirs)
    floors = {"greedy, B = 1": (1, 3.0, 1.0), "beam 5, B = 1": (5, 3.0, 1.0)}
    with torch.no_grad():
        for label, (beams, *least) in floors.items():
            inputs = held.agreed(sorted(sources(), key=len), beams, 11)[10:]
            ways = {OURS: held.with_ours, HF: held.with_theirs, CT2: held.with_engine}
            contenders = {name: partial(way, inputs, beams) for name, way in ways.items()}
            timings = compare(contenders, effort.repeats, seconds=3 * effort.seconds)
            pairs = zip((HF, CT2), least, strict=True)
            targets = {peer: Target(floor, at_least=True) for peer, floor in pairs}
            yield from time_rows(timings, label, targets)


def _write_llama(place: Path) -> None:
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=32000,
        hidden_size=288,
        intermediate_size=768,
        num_hidden_layers=6,
        num_attention_heads=6,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=0.06,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(place)


def story_rows(effort: Effort) -> Iterator[Row]:
    """A decoder-only model that continues a story: greedy (tokens are compared) and sampling."""
    import transformers

    folder = _folder("REGARD_BENCH_LLAMA", _write_llama)
    theirs = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ours, ids = from_pretrained(folder), torch.tensor([[1, 9038, 2501, 263, 931]])
    asked = {"max_new_tokens": PIECES, "min_new_tokens": PIECES}
    for label, draws in (("greedy, B = 1", {}), ("sampling, B = 1", {"do_sample": True})):
        contenders = {
            OURS: partial(lambda **how: ours.generate(ids, **how).sequences, **asked, **draws),
            HF: partial(
                theirs.generate, ids, attention_mask=torch.ones_like(ids), **asked, **draws
            ),
        }
        timings = compare(contenders, effort.repeats, seconds=3 * effort.seconds, check=not draws)
        yield from time_rows(timings, label, {HF: Target(2.0, at_least=True)})


TABLES = {
    "translation": Table("Translating, Marian of 6 + 6 layers, float32", translation_rows, 4.0),
    "light": Table(
        "Translating, the same Marian in int8 (transformers in float32)", light_rows, 2.0
    ),
    "story": Table("Continuing, Llama of the shape of stories15M, float32", story_rows, 0.7),
}
