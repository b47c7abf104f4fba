"""Tokenizer and TokenizerPair: text to ids and back, with the interface of Hugging Face."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import tokenizers
from torch import Tensor

from regard.errors import FileError, InputError
from regard.files import atomic_folder
from regard.models.tokenizers.encoding import (
    BatchEncoding,
    Options,
    as_tensor,
    check_options,
    encode_texts,
    encoding_fields,
)
from regard.models.tokenizers.folders import (
    FILE_NAMES,
    HIDDEN,
    SpecialTokens,
    TokenizerParts,
    read_folder,
)
from regard.models.tokenizers.training import (
    Chinese,
    Kind,
    VocabularyOptions,
    set_template,
    train_backend,
)
from regard.models.tokenizers.unknown_words import extend_vocabulary

Ids = int | Sequence[int] | Tensor
Texts = str | Sequence[str] | Sequence[Sequence[str]]


class Tokenizer:
    """Turns text into ids and ids into text, with the methods of a Hugging Face fast tokenizer.

    >>> from regard.models.tokenizers import Tokenizer
    >>> tokenizer = Tokenizer.train(["I love you.", "我爱你。"] * 9, "character")
    >>> tokenizer.decode(tokenizer.encode("你 love 我 ♥"), skip_special_tokens=True)
    '你 love 我 ♥'
    """

    is_fast: ClassVar[bool] = True
    bos_token: str | None
    eos_token: str | None
    unk_token: str | None
    sep_token: str | None
    pad_token: str | None
    cls_token: str | None
    mask_token: str | None
    bos_token_id: int | None
    eos_token_id: int | None
    unk_token_id: int | None
    sep_token_id: int | None
    pad_token_id: int | None
    cls_token_id: int | None
    mask_token_id: int | None

    def __init__(
        self, backend: tokenizers.Tokenizer, special_tokens: SpecialTokens | None = None
    ) -> None:
        special_tokens = (
            SpecialTokens.from_usual_names(backend) if special_tokens is None else special_tokens
        )
        self.backend_tokenizer = backend
        for role, token in special_tokens.tokens.items():
            setattr(self, role, token)
        self.padding_side = special_tokens.padding_side
        self.model_max_length = special_tokens.max_length

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        kind: Kind = "bpe",
        vocab_size: int = 8000,
        *,
        punctuation: bool = False,
        chinese: Chinese = "subword",
        lower: bool = False,
        alphabet: int | None = None,
    ) -> "Tokenizer":
        """A tokenizer with a vocabulary learnt from lines of text.

        With `punctuation` each punctuation mark is a token of its own, with chinese="character"
        each Chinese character. `alphabet` is the number of most frequent characters that get a
        token. `lower` turns all text into lower case.

        The kinds "byte-bpe", "bpe", "unigram" and "character" decode to exactly the text that was
        encoded, because unknown characters become bytes; the exception is a ▁ in the text, which
        becomes a space where the vocabulary writes ▁ for the space. "word" knows only the words of
        the corpus.
        """
        options = VocabularyOptions(kind, vocab_size, punctuation, chinese, lower, alphabet)
        return Tokenizer(train_backend(lines, options))

    def without_eos(self) -> "Tokenizer":
        """The same vocabulary for texts that a model continues: with <s> before them and no </s>.

        A tokenizer of `train` is for complete texts, such as sentences to translate.

        >>> from regard.models import Tokenizer
        >>> tokenizer = Tokenizer.train(["to be"], "byte-bpe", 270).without_eos()
        >>> tokenizer.convert_ids_to_tokens(tokenizer.encode("to"))
        ['<s>', 'to']
        """
        backend = tokenizers.Tokenizer.from_str(self.backend_tokenizer.to_str())
        set_template(backend, "<s> $A")
        return Tokenizer(backend, self.special_tokens)

    def with_words_of(self, texts: Iterable[str]) -> "Tokenizer":
        """This tokenizer with a new id for every unknown word of the texts, for models that copy.

        Vocabularies of pieces know every word and stay as they are, and so do pairs.

        >>> from regard.models import Tokenizer
        >>> Tokenizer.train(["I love you"], "word", 10).with_words_of(["a wug"]).tokenize("I wug")
        ['▁I', '▁wug']
        """
        backend = extend_vocabulary(self.backend_tokenizer, texts) if self.source is self else None
        return self if backend is None else Tokenizer(backend, self.special_tokens)

    @classmethod
    def load(cls, folder: str | Path) -> "Tokenizer":
        """The tokenizer of a folder; a TokenizerPair if source and target have one each."""
        content = read_folder(Path(folder))
        if isinstance(content, TokenizerParts):
            return Tokenizer(*content)
        return TokenizerPair(*(Tokenizer(*parts) for parts in content))

    def save(self, folder: str | Path) -> None:
        """Write tokenizer.json, and tokenizer_config.json with the special tokens.

        Both are written or none; other files of an existing folder are kept.
        """
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise FileError(f"{folder} is a file; expected a folder to write the tokenizer to")
        try:
            with atomic_folder(folder, own_names=FILE_NAMES) as temporary:
                self.write_files(temporary)
        except OSError as error:
            reason = error.strerror or error
            raise FileError(
                f"cannot write the tokenizer to {folder}: {reason}; what was there before is as it "
                "was, make room or name another folder"
            ) from error

    def write_files(self, folder: Path) -> None:
        """Write the files of the tokenizer one by one into an existing folder."""
        _write_backend(folder / "tokenizer.json", self.backend_tokenizer)
        _write_json(folder / "tokenizer_config.json", self.special_tokens.to_json())

    @property
    def source(self) -> "Tokenizer":
        """The tokenizer of the source text."""
        return self

    @property
    def target(self) -> "Tokenizer":
        """The tokenizer of the target text."""
        return self

    @property
    def special_tokens(self) -> SpecialTokens:
        """The special tokens, the padding side and the maximum length as one value."""
        return SpecialTokens(self.special_tokens_map, self.padding_side, self.model_max_length)

    def with_template(self, template: str, pair: str | None = None) -> "Tokenizer":
        """This tokenizer with other special tokens around a text, such as "<s> $A </s>".

        `pair` is the template of a text with a second one, such as "<s> $A </s> $B:1 </s>:1", where
        1 is the segment of a token; without it there are no special tokens around pairs.
        """
        backend = tokenizers.Tokenizer.from_str(self.backend_tokenizer.to_str())
        parts = [part.split(":")[0] for part in f"{template} {pair or ''}".split()]
        names = [part for part in dict.fromkeys(parts) if not part.startswith("$")]
        unknown = [name for name in names if backend.token_to_id(name) is None]
        if unknown or "$A" not in template.split():
            raise InputError(
                f"a template holds $A, the text, and tokens of the vocabulary, got {template!r}"
            )
        backend.post_processor = tokenizers.processors.TemplateProcessing(
            single=template,
            pair=pair,
            special_tokens=[(name, backend.token_to_id(name)) for name in names],
        )
        return Tokenizer(backend, self.special_tokens)

    def __call__(
        self,
        text: Texts | None = None,
        text_pair: Texts | None = None,
        *,
        text_target: Texts | None = None,
        **options: Any,
    ) -> BatchEncoding:
        """The ids and masks of one text or several; the keywords are those of Hugging Face.

        `text_target` is encoded by the target's tokenizer, as `labels`, or as `input_ids` if there
        is no `text`.
        """
        checked = check_options(options)
        if text is None and text_target is None:
            raise InputError("expected a text or a text_target, got neither")
        if text is None:
            assert text_target is not None
            return self.target._batch(text_target, None, checked)
        batch = self.source._batch(text, text_pair, checked)
        if text_target is not None:
            batch["labels"] = self.target._batch(text_target, None, checked)["input_ids"]
        return batch

    def encode(self, text: str, text_pair: str | None = None, **options: Any) -> Any:
        """The ids of one text, a list; with return_tensors="pt" a tensor (1, n)."""
        if not isinstance(text, str):
            raise InputError(f"encode expected one text, got {type(text).__name__}")
        return self(text, text_pair, **options)["input_ids"]

    def tokenize(self, text: str, *, add_special_tokens: bool = False) -> list[str]:
        """The tokens of one text."""
        return self(text, add_special_tokens=add_special_tokens).tokens()

    def decode(self, token_ids: Ids, skip_special_tokens: bool = False) -> str:
        """The text of some ids."""
        ids = self._id_list(token_ids)
        return str(self.backend_tokenizer.decode(ids, skip_special_tokens=skip_special_tokens))

    def batch_decode(
        self, sequences: Iterable[Ids], skip_special_tokens: bool = False
    ) -> list[str]:
        """The text of each row of ids."""
        return [self.decode(row, skip_special_tokens) for row in sequences]

    def convert_ids_to_tokens(self, ids: Ids, skip_special_tokens: bool = False) -> Any:
        """The token of each id as a list; for a single int, its token."""
        special = self.all_special_ids if skip_special_tokens else []
        tokens = [self._token(number) for number in self._id_list(ids) if number not in special]
        return tokens[0] if isinstance(ids, int) and tokens else tokens

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """The id of each token; unknown tokens have the id of the unknown token."""
        if not isinstance(tokens, str):
            return [self.convert_tokens_to_ids(token) for token in tokens]
        number = self.backend_tokenizer.token_to_id(tokens)
        if number is None:
            number = self.backend_tokenizer.token_to_id(HIDDEN + tokens)
        return self.unk_token_id if number is None else number

    def get_vocab(self) -> dict[str, int]:
        """The id of every token."""
        vocabulary = self.backend_tokenizer.get_vocab(with_added_tokens=True)
        return {token.removeprefix(HIDDEN): number for token, number in vocabulary.items()}

    @property
    def vocab_size(self) -> int:
        """The size of the vocabulary without added tokens."""
        return int(self.backend_tokenizer.get_vocab_size(with_added_tokens=False))

    def __len__(self) -> int:
        return int(self.backend_tokenizer.get_vocab_size(with_added_tokens=True))

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """The special tokens by role, such as "eos_token"."""
        roles = {role: getattr(self, role) for role in SpecialTokens.ROLES}
        return {role: token for role, token in roles.items() if token is not None}

    @property
    def all_special_tokens(self) -> list[str]:
        """The special tokens, those with a role first."""
        added = self.backend_tokenizer.get_added_tokens_decoder().values()
        special = [token.content for token in added if token.special]
        return list(dict.fromkeys([*self.special_tokens_map.values(), *special]))

    @property
    def all_special_ids(self) -> list[int]:
        """The ids of the special tokens."""
        return [self.convert_tokens_to_ids(token) for token in self.all_special_tokens]

    def __getattr__(self, name: str) -> Any:
        # Special tokens that were not set are None; ids such as `eos_token_id` follow the token.
        role = name.removesuffix("_id")
        if role not in SpecialTokens.ROLES:
            raise AttributeError(f"a Tokenizer has no {name!r}")
        token = self.__dict__.get(role)
        if role == name or token is None:
            return None
        return self.backend_tokenizer.token_to_id(token)

    def __repr__(self) -> str:
        model = type(self.backend_tokenizer.model).__name__
        return f"{type(self).__name__}({model}, {len(self)} tokens)"

    def _batch(self, text: Texts, text_pair: Texts | None, options: Options) -> BatchEncoding:
        """The encoding of one text or several by this tokenizer, whatever its pair is."""
        one = isinstance(text, str) or (
            options.is_split_into_words and (not text or isinstance(text[0], str))
        )
        firsts = [text] if one else list(text)
        seconds = None if text_pair is None else ([text_pair] if one else list(text_pair))
        limit = options.max_length or self.model_max_length
        encodings = encode_texts(self.backend_tokenizer, firsts, seconds, options, limit)
        if options.pads:
            self._pad(encodings, options.width(max(map(len, encodings), default=0)))
        parts = encoding_fields(encodings, options, paired=seconds is not None)
        if one and options.return_tensors is None:
            return BatchEncoding({name: rows[0] for name, rows in parts.items()}, encodings)
        kind = options.return_tensors
        return BatchEncoding(
            {name: as_tensor(rows, kind) for name, rows in parts.items()}, encodings
        )

    def _pad(self, encodings: list[tokenizers.Encoding], width: int) -> None:
        """Pad all encodings in place to the same number of tokens."""
        pad = self.pad_token_id
        if pad is None or self.pad_token is None:
            raise InputError(
                "this tokenizer has no token to pad with; "
                "set one: tokenizer.pad_token = tokenizer.eos_token"
            )
        for encoding in encodings:
            encoding.pad(width, direction=self.padding_side, pad_id=pad, pad_token=self.pad_token)

    def _token(self, number: int) -> str:
        """The token of an id; an InputError if there is none."""
        token = self.backend_tokenizer.id_to_token(number)
        if token is None:
            raise InputError(f"no token has id {number}; this vocabulary has {len(self)} tokens")
        return str(token).removeprefix(HIDDEN)

    def _id_list(self, ids: Ids) -> list[int]:
        """The ids of one text as a list of int."""
        if isinstance(ids, int):
            return [ids]
        plain = ids.tolist() if isinstance(ids, Tensor) else list(ids)
        plain = [plain] if isinstance(plain, int) else plain
        if any(isinstance(number, list) for number in plain):
            raise InputError("expected the ids of one text, got several rows; use batch_decode")
        return [int(number) for number in plain]


class TokenizerPair(Tokenizer):
    """Two tokenizers as one: the source's encodes texts, the target's decodes ids.

    `text_target=` is encoded by the target's tokenizer. Ids, tokens and special tokens of the pair
    are those of the target; `pair.source` has those of the source.
    """

    def __init__(self, source: Tokenizer, target: Tokenizer) -> None:
        self._source, self._target = source, target
        self.backend_tokenizer = target.backend_tokenizer
        self.model_max_length = source.model_max_length
        for role, token in target.special_tokens_map.items():
            setattr(self, role, token)

    @property
    def padding_side(self) -> str:
        """The padding side of the source; setting it changes both."""
        return self._source.padding_side

    @padding_side.setter
    def padding_side(self, side: str) -> None:
        self._source.padding_side = self._target.padding_side = side

    @property
    def source(self) -> Tokenizer:
        """The tokenizer of the source text."""
        return self._source

    @property
    def target(self) -> Tokenizer:
        """The tokenizer of the target text."""
        return self._target

    def write_files(self, folder: Path) -> None:
        """Write tokenizer.json, target_tokenizer.json, and one config for both."""
        _write_backend(folder / "tokenizer.json", self.source.backend_tokenizer)
        _write_backend(folder / "target_tokenizer.json", self.target.backend_tokenizer)
        both = self.source.special_tokens.to_json() | {
            "target": self.target.special_tokens.to_json()
        }
        _write_json(folder / "tokenizer_config.json", both)


def _write_backend(file: Path, backend: tokenizers.Tokenizer) -> None:
    """Write a tokenizer.json; the library's own method reports a full disk as a bare Exception."""
    file.write_text(backend.to_str(pretty=True), encoding="utf-8")


def _write_json(file: Path, content: dict[str, Any]) -> None:
    """Write an object to a JSON file."""
    file.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
