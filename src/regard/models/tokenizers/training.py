"""Learning a vocabulary from a corpus: BPE, unigram, words or characters.

As in SentencePiece, the space is written ▁ and belongs to the word after it: "I love" becomes ▁I
and ▁love. A ▁ is also put before a text that begins with a letter or digit outside of Chinese and
Japanese, so that a word is the same token at the beginning of a text as inside of it; decoding
removes this ▁.
"""

import json
import re
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

# The first ids of every vocabulary; then come the byte tokens where there are any.
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))

_CJK = r"\p{Han}\p{Hiragana}\p{Katakana}"
# The beginning of a text that gets a ▁: before a space, letter or digit that is not CJK.
_START = rf"\A(?=[ \p{{L}}\p{{N}}&&[^{_CJK}]])"
_LONG_WORD = re.compile(r"\S{256}(?=\S)")
_MARKS = r"[\p{P}\p{S}&&[^▁]]"


@dataclass(frozen=True)
class VocabularyOptions:
    """The options of a vocabulary to learn; `Tokenizer.train` explains them."""

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
        """The regular expression of a word; a token never spans two words."""
        apart = r"\p{Han}" if self.chinese == "character" else ""
        marks = r"\p{P}\p{S}" if self.punctuation else ""
        inside = rf"[^▁\s{apart}{marks}]"
        parts = [r"\p{Han}"] if apart else []
        if self.kind == "unigram":
            parts.append("<")  # so that the text "<0x41>" is not mistaken for the token of a byte
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
        for _ in checked_lines:  # only to count the characters: there is nothing to train
            pass
        _check_alphabet(character_counts, options)
        backend = _add_byte_tokens(
            backend, options, _frequent_characters(backend, character_counts, options)
        )
    else:
        _train(backend, checked_lines, options)
        _check_alphabet(character_counts, options)
        if options.has_byte_tokens:
            backend = _add_byte_tokens(backend, options, None)
    set_template(backend, "$A </s>")
    return backend


def set_template(backend: tokenizers.Tokenizer, text: Literal["$A </s>", "<s> $A"]) -> None:
    """Set the special tokens around a text: the end token after it, or the start token before."""
    special = [(name, backend.token_to_id(name)) for name in text.split() if name != "$A"]
    pair = f"{text} {text.replace('$A', '$B')}"
    backend.post_processor = processors.TemplateProcessing(
        single=text, pair=pair, special_tokens=special
    )


def _check_lines(lines: Iterable[str], character_counts: Counter[str]) -> Iterator[str]:
    """Yield the lines, each checked to be a str, and add their characters to the counts."""
    if isinstance(lines, str):
        raise InputError("expected an iterable of lines, got one str; give [text]")
    for number, line in enumerate(lines):
        if not isinstance(line, str):
            raise InputError(f"line {number} of the corpus is {type(line).__name__}, expected str")
        character_counts.update(line)
        yield from _cut_long_words(line)
    if not character_counts:
        raise InputError("the corpus is empty; a tokenizer needs some text to learn from")


def _cut_long_words(line: str) -> Iterator[str]:
    """The line itself, or its parts if it has very long words, which are cut into several.

    Learning BPE takes time that grows with the square of a word's length: a line of ten million
    characters without a space would take days.
    """
    start = 0
    for word in _LONG_WORD.finditer(line):
        yield line[start : word.end()]
        start = word.end()
    if start < len(line) or not line:
        yield line[start:]


def _train(backend: tokenizers.Tokenizer, lines: Iterator[str], options: VocabularyOptions) -> None:
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
    """Raise an InputError if the special tokens, bytes and characters exceed the vocabulary."""
    characters = {"byte-bpe": 256, "word": 0}.get(options.kind, len(character_counts))
    characters = min(characters, options.alphabet or characters)
    needed = len(SPECIAL) + characters + (len(BYTES) if options.has_byte_tokens else 0)
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
        splits = [
            pre_tokenizers.Split(Regex(pattern), "isolated")
            for pattern in _single_token_patterns(options)
        ]
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        backend.decoder = decoders.ByteLevel()
        return
    if options.kind == "character":
        backend.normalizer = normalizers.Sequence(lower)
        backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    else:
        start = [normalizers.Replace("▁", " "), normalizers.Replace(Regex(_START), "▁")]
        spaces = [*lower, *start, normalizers.Replace(" ", "▁")]
        backend.normalizer = normalizers.Sequence(spaces)
        join = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        backend.decoder = decoders.Sequence([*join, decoders.Strip(" ", 1, 0)])
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(options.words()), "isolated")


def _single_token_patterns(options: VocabularyOptions) -> list[str]:
    """The patterns of text that is always a token of its own: Chinese characters, punctuation.

    An apostrophe between two letters, as in "don't", is part of the word.
    """
    han = [r"\p{Han}"] if options.chinese == "character" else []
    return [*han, rf" ?(?!(?<=\p{{L}})['’](?=\p{{L}})){_MARKS}"] if options.punctuation else han


def _trainer(options: VocabularyOptions) -> Any:
    """The library's trainer, for a vocabulary without the byte tokens, which are added later."""
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


def _frequent_characters(
    backend: tokenizers.Tokenizer, character_counts: Counter[str], options: VocabularyOptions
) -> list[str]:
    """The most frequent characters after normalising, at most `options.alphabet` of them."""
    counts: Counter[str] = Counter()
    for character, count in character_counts.items():
        # One character may become several: İ in lower case is i and a combining dot.
        for normalised in backend.normalizer.normalize_str(character):
            counts[normalised] += count
    return [character for character, _ in counts.most_common(options.alphabet)]


def _add_byte_tokens(
    backend: tokenizers.Tokenizer, options: VocabularyOptions, characters: list[str] | None
) -> tokenizers.Tokenizer:
    """The tokenizer with a token for each byte after the special tokens.

    The library cannot add them itself, so that its JSON form is changed. `characters` replace the
    learnt vocabulary in a tokenizer of characters.
    """
    whole = json.loads(backend.to_str())
    model = whole["model"]
    model["byte_fallback"] = True
    if options.kind == "unigram":
        lowest = min(score for _, score in model["vocab"])
        learnt = [pair for pair in model["vocab"] if pair[0] not in SPECIAL]
        byte_tokens = [[name, lowest] for name in BYTES]
        model["vocab"] = [[name, 0.0] for name in SPECIAL] + byte_tokens + learnt
        model["unk_id"] = SPECIAL.index("<unk>")
    else:
        learnt = sorted(model["vocab"], key=model["vocab"].get)
        learnt = learnt if characters is None else characters
        names = dict.fromkeys(chain(SPECIAL, BYTES, learnt))
        model["vocab"] = {name: number for number, name in enumerate(names)}
    rebuilt = tokenizers.Tokenizer.from_str(json.dumps(whole))
    rebuilt.add_special_tokens(list(SPECIAL))
    return rebuilt
