"""Vocabularies learnt from a corpus: BPE, unigram, words or characters, text given back exactly.

The space is written ▁, joined to the word after it. A text whose first word is not Chinese begins
with a ▁ of its own, so that a word is the same token wherever it stands; decoding takes it off.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, get_args

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.errors import InputError, UnknownNameError

Kind = Literal["bpe", "byte-bpe", "unigram", "word", "character"]
Chinese = Literal["character", "subword"]

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))

_CJK = r"\p{Han}\p{Hiragana}\p{Katakana}"
_START = rf"\A(?=[ \p{{L}}\p{{N}}&&[^{_CJK}]])"
_MARKS = r"[\p{P}\p{S}&&[^▁]]"


@dataclass(frozen=True)
class Plan:
    """What is to be learnt."""

    kind: Kind
    vocab_size: int
    punctuation: bool
    chinese: Chinese
    lower: bool
    alphabet: int | None

    def __post_init__(self) -> None:
        for name, value, known in (
            ("kind of tokenizer", self.kind, get_args(Kind)),
            ("way to split Chinese", self.chinese, get_args(Chinese)),
        ):
            if value not in known:
                raise UnknownNameError(name, value, known)
        if self.alphabet is not None and self.kind not in ("bpe", "character"):
            raise InputError(
                f"alphabet limits the characters of kinds bpe and character, got {self.kind!r}"
            )

    @property
    def spells(self) -> bool:
        """Whether an unknown character is spelled in bytes of its own."""
        return self.kind in ("bpe", "unigram", "character")

    def words(self) -> str:
        """The pattern of a word, inside which pieces are made."""
        apart = r"\p{Han}" if self.chinese == "character" else ""
        marks = r"\p{P}\p{S}" if self.punctuation else ""
        inside = rf"[^▁\s{apart}{marks}]"
        parts = [r"\p{Han}"] if apart else []
        if self.kind == "unigram":
            parts.append("<")  # so that a text that spells <0x41> is not taken for that byte
        if marks:
            parts.append(rf"▁?{_MARKS}")
            inside = rf"{inside}(?:{inside}|(?<=\p{{L}})['’](?=\p{{L}}))*"
            return "|".join([*parts, rf"▁?{inside}", r"\s+", "▁"])
        return "|".join([*parts, rf"▁?{inside}+", r"\s+", "▁"])


def train_backend(lines: Iterable[str], plan: Plan) -> tokenizers.Tokenizer:
    """A tokenizer of the planned kind, learnt from the lines."""
    seen: Counter[str] = Counter()
    checked = _checked(lines, seen)
    backend = tokenizers.Tokenizer(_model(plan))
    _dress(backend, plan)
    if plan.kind == "character":
        for _ in checked:
            pass
        _check_alphabet(seen, plan)
        backend = _respelled(backend, plan, _characters(backend, seen, plan))
    else:
        _learn(backend, checked, plan)
        _check_alphabet(seen, plan)
        if plan.spells:
            backend = _respelled(backend, plan, None)
    mark(backend, "$A </s>")
    return backend


def mark(backend: tokenizers.Tokenizer, text: Literal["$A </s>", "<s> $A"]) -> None:
    """Say whether a text has its end behind it, or its beginning before it."""
    special = [(each, backend.token_to_id(each)) for each in text.split() if each != "$A"]
    pair = f"{text} {text.replace('$A', '$B')}"
    backend.post_processor = processors.TemplateProcessing(
        single=text, pair=pair, special_tokens=special
    )


def _checked(lines: Iterable[str], seen: Counter[str]) -> Iterator[str]:
    """The lines themselves; their characters are counted as they pass."""
    if isinstance(lines, str):
        raise InputError("expected an iterable of lines, got one str; give [text]")
    for number, line in enumerate(lines):
        if not isinstance(line, str):
            raise InputError(f"line {number} of the corpus is {type(line).__name__}, expected str")
        seen.update(line)
        yield line
    if not seen:
        raise InputError("the corpus is empty; a tokenizer needs some text to learn from")


def _learn(backend: tokenizers.Tokenizer, lines: Iterator[str], plan: Plan) -> None:
    try:
        backend.train_from_iterator(lines, _trainer(plan))
    except InputError:
        raise
    except Exception as error:  # the library raises bare Exceptions
        raise InputError(
            f"a {plan.kind} vocabulary of {plan.vocab_size} could not be learnt: {error}; "
            "raise vocab_size, or give more text"
        ) from None


def _check_alphabet(seen: Counter[str], plan: Plan) -> None:
    letters = {"byte-bpe": 256, "word": 0}.get(plan.kind, len(seen))
    letters = min(letters, plan.alphabet or letters)
    needed = len(SPECIAL) + letters + (len(BYTES) if plan.spells else 0)
    if needed > plan.vocab_size:
        raise InputError(
            f"a {plan.kind} vocabulary of {plan.vocab_size} cannot hold this corpus's alphabet: "
            f"it needs {needed} tokens at least; raise vocab_size, or lower alphabet"
        )


def _model(plan: Plan) -> Any:
    if plan.kind == "unigram":
        return models.Unigram()
    if plan.kind == "word":
        return models.WordLevel(unk_token="<unk>")  # noqa: S106
    return models.BPE(unk_token=None if plan.kind == "byte-bpe" else "<unk>")


def _dress(backend: tokenizers.Tokenizer, plan: Plan) -> None:
    """Normalizer, pre-tokenizer and decoder of the kind."""
    lower = [normalizers.Lowercase()] if plan.lower else []
    if plan.kind == "byte-bpe":
        backend.normalizer = normalizers.Sequence(lower)
        apart = [pre_tokenizers.Split(Regex(part), "isolated") for part in _apart(plan)]
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [*apart, pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        backend.decoder = decoders.ByteLevel()
        return
    if plan.kind == "character":
        backend.normalizer = normalizers.Sequence(lower)
        backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    else:
        mark = [normalizers.Replace("▁", " "), normalizers.Replace(Regex(_START), "▁")]
        spaces = [*lower, *mark, normalizers.Replace(" ", "▁")]
        backend.normalizer = normalizers.Sequence(spaces)
        join = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        backend.decoder = decoders.Sequence([*join, decoders.Strip(" ", 1, 0)])
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(plan.words()), "isolated")


def _apart(plan: Plan) -> list[str]:
    han = [r"\p{Han}"] if plan.chinese == "character" else []
    return [*han, rf" ?(?!(?<=\p{{L}})['’](?=\p{{L}})){_MARKS}"] if plan.punctuation else han


def _trainer(plan: Plan) -> Any:
    """The library's trainer; room is left for bytes that are added afterwards."""
    size = max(1, plan.vocab_size - (len(BYTES) if plan.spells else 0))
    common: dict[str, Any] = {"vocab_size": size, "special_tokens": list(SPECIAL)}
    if plan.kind == "unigram":
        return trainers.UnigramTrainer(**common, unk_token="<unk>", show_progress=False)  # noqa: S106
    if plan.kind == "word":
        return trainers.WordLevelTrainer(**common, show_progress=False)
    if plan.kind == "byte-bpe":
        common["initial_alphabet"] = pre_tokenizers.ByteLevel.alphabet()
    elif plan.alphabet is not None:
        common["limit_alphabet"] = plan.alphabet
    return trainers.BpeTrainer(**common, show_progress=False)


def _characters(backend: tokenizers.Tokenizer, seen: Counter[str], plan: Plan) -> list[str]:
    counts: Counter[str] = Counter()
    for character, count in seen.items():
        for each in backend.normalizer.normalize_str(character):
            counts[each] += count
    return [character for character, _ in counts.most_common(plan.alphabet)]


def _respelled(
    backend: tokenizers.Tokenizer, plan: Plan, characters: list[str] | None
) -> tokenizers.Tokenizer:
    """The tokenizer with a token for each byte behind the special ones."""
    whole = json.loads(backend.to_str())
    model = whole["model"]
    model["byte_fallback"] = True
    if plan.kind == "unigram":
        lowest = min(score for _, score in model["vocab"])
        learnt = [pair for pair in model["vocab"] if pair[0] not in SPECIAL]
        spelled = [[name, lowest] for name in BYTES]
        model["vocab"] = [[name, 0.0] for name in SPECIAL] + spelled + learnt
        model["unk_id"] = SPECIAL.index("<unk>")
    else:
        learnt = sorted(model["vocab"], key=model["vocab"].get)
        learnt = learnt if characters is None else characters
        names = dict.fromkeys(chain(SPECIAL, BYTES, learnt))
        model["vocab"] = {name: number for number, name in enumerate(names)}
    rebuilt = tokenizers.Tokenizer.from_str(json.dumps(whole))
    rebuilt.add_special_tokens(list(SPECIAL))
    return rebuilt
