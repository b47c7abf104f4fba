"""Learning a vocabulary from a corpus: BPE, unigram, words or characters.

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
class VocabularyOptions:
    """The options of a vocabulary that is to be learnt."""

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
    def has_byte_tokens(self) -> bool:
        """True if an unknown character is encoded as its bytes, one token each."""
        return self.kind in ("bpe", "unigram", "character")

    def words(self) -> str:
        """The pattern of a word; no token reaches across two words."""
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


def train_backend(lines: Iterable[str], options: VocabularyOptions) -> tokenizers.Tokenizer:
    """A tokenizer with these options, learnt from the lines."""
    character_counts: Counter[str] = Counter()
    checked_lines = _check_lines(lines, character_counts)
    backend = tokenizers.Tokenizer(_model(options))
    _set_text_processing(backend, options)
    if options.kind == "character":
        for _ in checked_lines:
            pass
        _check_alphabet(character_counts, options)
        backend = _add_byte_tokens(
            backend, options, _characters(backend, character_counts, options)
        )
    else:
        _learn(backend, checked_lines, options)
        _check_alphabet(character_counts, options)
        if options.has_byte_tokens:
            backend = _add_byte_tokens(backend, options, None)
    set_template(backend, "$A </s>")
    return backend


def set_template(backend: tokenizers.Tokenizer, text: Literal["$A </s>", "<s> $A"]) -> None:
    """Set the special tokens around a text: its end token after it, or its start token before."""
    special = [(each, backend.token_to_id(each)) for each in text.split() if each != "$A"]
    pair = f"{text} {text.replace('$A', '$B')}"
    backend.post_processor = processors.TemplateProcessing(
        single=text, pair=pair, special_tokens=special
    )


def _check_lines(lines: Iterable[str], character_counts: Counter[str]) -> Iterator[str]:
    """The lines themselves, checked; their characters are counted on the way."""
    if isinstance(lines, str):
        raise InputError("expected an iterable of lines, got one str; give [text]")
    for number, line in enumerate(lines):
        if not isinstance(line, str):
            raise InputError(f"line {number} of the corpus is {type(line).__name__}, expected str")
        character_counts.update(line)
        yield line
    if not character_counts:
        raise InputError("the corpus is empty; a tokenizer needs some text to learn from")


def _learn(backend: tokenizers.Tokenizer, lines: Iterator[str], options: VocabularyOptions) -> None:
    """Train the tokenizer; errors of the library become InputErrors."""
    try:
        backend.train_from_iterator(lines, _trainer(options))
    except InputError:
        raise
    except Exception as error:  # the library raises bare Exceptions
        raise InputError(
            f"a {options.kind} vocabulary of {options.vocab_size} could not be learnt: {error}; "
            "raise vocab_size, or give more text"
        ) from None


def _check_alphabet(character_counts: Counter[str], options: VocabularyOptions) -> None:
    letters = {"byte-bpe": 256, "word": 0}.get(options.kind, len(character_counts))
    letters = min(letters, options.alphabet or letters)
    needed = len(SPECIAL) + letters + (len(BYTES) if options.has_byte_tokens else 0)
    if needed > options.vocab_size:
        raise InputError(
            f"a {options.kind} vocabulary of {options.vocab_size} cannot hold this corpus's "
            f"alphabet: it needs {needed} tokens at least; raise vocab_size, or lower alphabet"
        )


def _model(options: VocabularyOptions) -> Any:
    """An untrained model of the tokenizers library."""
    if options.kind == "unigram":
        return models.Unigram()
    if options.kind == "word":
        return models.WordLevel(unk_token="<unk>")  # noqa: S106
    return models.BPE(unk_token=None if options.kind == "byte-bpe" else "<unk>")


def _set_text_processing(backend: tokenizers.Tokenizer, options: VocabularyOptions) -> None:
    """Set the normalizer, pre-tokenizer and decoder of this kind of vocabulary."""
    lower = [normalizers.Lowercase()] if options.lower else []
    if options.kind == "byte-bpe":
        backend.normalizer = normalizers.Sequence(lower)
        apart = [
            pre_tokenizers.Split(Regex(part), "isolated") for part in _separate_patterns(options)
        ]
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [*apart, pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        backend.decoder = decoders.ByteLevel()
        return
    if options.kind == "character":
        backend.normalizer = normalizers.Sequence(lower)
        backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    else:
        set_template = [normalizers.Replace("▁", " "), normalizers.Replace(Regex(_START), "▁")]
        spaces = [*lower, *set_template, normalizers.Replace(" ", "▁")]
        backend.normalizer = normalizers.Sequence(spaces)
        join = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        backend.decoder = decoders.Sequence([*join, decoders.Strip(" ", 1, 0)])
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(options.words()), "isolated")


def _separate_patterns(options: VocabularyOptions) -> list[str]:
    """The patterns of what is always a token of its own: Chinese characters, punctuation."""
    han = [r"\p{Han}"] if options.chinese == "character" else []
    return [*han, rf" ?(?!(?<=\p{{L}})['’](?=\p{{L}})){_MARKS}"] if options.punctuation else han


def _trainer(options: VocabularyOptions) -> Any:
    """The library's trainer; it leaves room for the byte tokens, which are added afterwards."""
    size = max(1, options.vocab_size - (len(BYTES) if options.has_byte_tokens else 0))
    common: dict[str, Any] = {"vocab_size": size, "special_tokens": list(SPECIAL)}
    if options.kind == "unigram":
        return trainers.UnigramTrainer(**common, unk_token="<unk>", show_progress=False)  # noqa: S106
    if options.kind == "word":
        return trainers.WordLevelTrainer(**common, show_progress=False)
    if options.kind == "byte-bpe":
        common["initial_alphabet"] = pre_tokenizers.ByteLevel.alphabet()
    elif options.alphabet is not None:
        common["limit_alphabet"] = options.alphabet
    return trainers.BpeTrainer(**common, show_progress=False)


def _characters(
    backend: tokenizers.Tokenizer, character_counts: Counter[str], options: VocabularyOptions
) -> list[str]:
    counts: Counter[str] = Counter()
    for character, count in character_counts.items():
        for each in backend.normalizer.normalize_str(character):
            counts[each] += count
    return [character for character, _ in counts.most_common(options.alphabet)]


def _add_byte_tokens(
    backend: tokenizers.Tokenizer, options: VocabularyOptions, characters: list[str] | None
) -> tokenizers.Tokenizer:
    """The tokenizer with a token for each byte after the special tokens."""
    whole = json.loads(backend.to_str())
    model = whole["model"]
    model["byte_fallback"] = True
    if options.kind == "unigram":
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
