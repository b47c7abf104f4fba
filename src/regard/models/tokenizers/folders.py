"""Reading a tokenizer from a folder: tokenizer.json, or an older layout that is converted."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import tokenizers

from regard.documents import check_value, parse_json, quote_value, read_json
from regard.errors import FileError, InputError, RegardError, first_line
from regard.models.tokenizers.sentencepiece import HIDDEN, marian_backend, piece_backend

__all__ = ["FILE_NAMES", "HIDDEN", "SpecialTokens", "TokenizerParts", "read_folder"]

# The files of a tokenizer that we write; the second only if source and target have one each.
FILE_NAMES = ("tokenizer.json", "target_tokenizer.json", "tokenizer_config.json")
# The usual names of special tokens by role, for tokenizers without a tokenizer_config.json.
_ROLE_NAMES = {
    "bos_token": ("<s>", "<|begin_of_text|>", "<|endoftext|>", "<bos>"),
    "eos_token": ("</s>", "<|end_of_text|>", "<|endoftext|>", "<eos>"),
    "unk_token": ("<unk>", "[UNK]"),
    "sep_token": ("[SEP]",),
    "pad_token": ("<pad>", "[PAD]"),
    "cls_token": ("[CLS]",),
    "mask_token": ("[MASK]", "<mask>"),
}
_NO_LIMIT = 1 << 40  # a config that means "no limit" writes a larger number


@dataclass(frozen=True)
class SpecialTokens:
    """The special tokens by role, the padding side, and the maximum length of a text."""

    ROLES: ClassVar[tuple[str, ...]] = tuple(_ROLE_NAMES)
    tokens: dict[str, str] = field(default_factory=dict)
    padding_side: str = "right"
    max_length: int | None = None

    @classmethod
    def from_usual_names(cls, backend: tokenizers.Tokenizer) -> "SpecialTokens":
        """The special tokens of a tokenizer, recognised by the names that they usually have."""
        added = backend.get_added_tokens_decoder().values()
        special = [token.content for token in added if token.special]
        tokens = {}
        for role, names in _ROLE_NAMES.items():
            known = [name for name in names if name in special]
            if known:
                tokens[role] = known[0]
        return cls(tokens)

    @classmethod
    def of(cls, config: dict[str, Any], backend: tokenizers.Tokenizer) -> "SpecialTokens":
        """The special tokens of a tokenizer_config.json that are in the vocabulary."""
        named = {role: _token_text(config.get(role)) for role in cls.ROLES}
        known = {
            role: name
            for role, name in named.items()
            if name and backend.token_to_id(name) is not None
        }
        tokens = known or cls.from_usual_names(backend).tokens
        side = config.get("padding_side", "right")
        check_value("tokenizer_config.json", "padding_side", side, Literal["left", "right"])
        return cls(tokens, side, _max_length(config.get("model_max_length")))

    def to_json(self) -> dict[str, Any]:
        """The content of a tokenizer_config.json."""
        config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", **self.tokens}
        config["padding_side"] = self.padding_side
        if self.max_length is not None:
            config["model_max_length"] = self.max_length
        return config


def _max_length(limit: Any) -> int | None:
    """The maximum length of a text; None for a missing limit, or one that means "no limit"."""
    whole = isinstance(limit, int | float) and not isinstance(limit, bool)
    if limit and not (whole and limit > 0):
        raise InputError(
            "tokenizer_config.json expected model_max_length to be a whole number above 0, got "
            f"{quote_value(limit)}"
        )
    return None if not limit or limit >= _NO_LIMIT else int(limit)


class TokenizerParts(NamedTuple):
    """The arguments of a Tokenizer: the backend that does the work, and the special tokens."""

    backend: tokenizers.Tokenizer
    special_tokens: SpecialTokens


def read_folder(folder: Path) -> TokenizerParts | tuple[TokenizerParts, TokenizerParts]:
    """The parts of the tokenizer in a folder; two if source and target have one each."""
    if not folder.is_dir():
        raise FileError(f"no folder {folder}; expected one with a tokenizer.json")
    config = _read_json_if_present(folder / "special_tokens_map.json")
    config |= _read_json_if_present(folder / "tokenizer_config.json")
    if (folder / "tokenizer.json").exists():
        source = _make_parts(_file_backend(folder / "tokenizer.json"), config)
        if not (folder / "target_tokenizer.json").exists():
            return source
        target = _file_backend(folder / "target_tokenizer.json")
        target_config = config.get("target", config)
        check_value(str(folder / "tokenizer_config.json"), "target", target_config, dict)
        return source, _make_parts(target, target_config)
    return _read_older_layout(folder, config)


def _read_older_layout(
    folder: Path, config: dict[str, Any]
) -> TokenizerParts | tuple[TokenizerParts, TokenizerParts]:
    """The tokenizer of an older layout, converted while it is read."""
    try:
        return _convert_older_layout(folder, config)
    except RegardError:
        raise
    except Exception as error:  # the library raises bare Exceptions
        raise FileError(
            f"the tokenizer files of {folder} are damaged or do not fit together "
            f"({first_line(error)}); fetch them again"
        ) from None


def _convert_older_layout(
    folder: Path, config: dict[str, Any]
) -> TokenizerParts | tuple[TokenizerParts, TokenizerParts]:
    """The tokenizer of the first older layout of which the folder has the files."""
    if (folder / "source.spm").exists() and (folder / "target.spm").exists():
        source_ids = _read_vocabulary(folder / "vocab.json")
        target_ids = _read_vocabulary(folder / "target_vocab.json") or source_ids
        return (
            _make_parts(marian_backend(folder / "source.spm", source_ids), config),
            _make_parts(marian_backend(folder / "target.spm", target_ids), config),
        )
    for name in ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model"):
        if (folder / name).exists():
            return _make_parts(piece_backend(folder / name), config)
    if (folder / "vocab.json").exists() and (folder / "merges.txt").exists():
        return _make_parts(_gpt2_backend(folder), config)
    if (folder / "vocab.txt").exists():
        return _make_parts(
            _bert_backend(folder, lower=config.get("do_lower_case") is not False), config
        )
    raise FileError(
        f"{folder} holds no tokenizer; expected tokenizer.json, or source.spm with target.spm "
        "and vocab.json, or vocab.json with merges.txt, or vocab.txt"
    )


def _gpt2_backend(folder: Path) -> tokenizers.Tokenizer:
    """A byte-level BPE from vocab.json and merges.txt."""
    model = tokenizers.models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    backend.add_special_tokens(["<|endoftext|>"])
    return backend


def _bert_backend(folder: Path, *, lower: bool) -> tokenizers.Tokenizer:
    """A WordPiece tokenizer from vocab.txt."""
    model = tokenizers.models.WordPiece.from_file(str(folder / "vocab.txt"), unk_token="[UNK]")  # noqa: S106
    backend = tokenizers.Tokenizer(model)
    backend.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lower)
    backend.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    backend.decoder = tokenizers.decoders.WordPiece()
    backend.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    vocabulary = backend.get_vocab()
    backend.post_processor = tokenizers.processors.BertProcessing(
        ("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"])
    )
    return backend


def _make_parts(backend: tokenizers.Tokenizer, config: dict[str, Any]) -> TokenizerParts:
    """The backend with its special tokens, and without the padding and truncation of its file."""
    # Each call says how to pad and truncate; a setting stored in the file would be applied as well.
    backend.no_padding()
    backend.no_truncation()
    return TokenizerParts(backend, SpecialTokens.of(config, backend))


def _file_backend(file: Path) -> tokenizers.Tokenizer:
    """The tokenizer of a tokenizer.json."""
    try:
        backend = tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises bare Exceptions
        raise FileError(
            f"{file} is no whole tokenizer file: {first_line(error)}; write it again"
        ) from None
    if backend.post_processor is not None:
        state = parse_json(backend.post_processor.__getstate__(), str(file))
        for processor in [state, *state.get("processors", [])]:
            _check_template(file, processor)
    return backend


def _check_template(file: Path, processor: dict[str, Any]) -> None:
    """Raise a FileError if a template names a special token that the file does not define.

    The library would end with a panic of Rust, which is no Exception, when it encodes a text.
    """
    pieces = [*processor.get("single", []), *processor.get("pair", [])]
    names = {piece["SpecialToken"]["id"] for piece in pieces if "SpecialToken" in piece}
    for name in sorted(names - {*processor.get("special_tokens", {})}):
        raise FileError(
            f"{file} puts the special token {quote_value(name)} around a text without saying what "
            "it is; write it again"
        )


def _read_json_if_present(file: Path) -> dict[str, Any]:
    """The object in a JSON file; an empty one if there is no such file."""
    return read_json(file) if file.exists() else {}


def _read_vocabulary(file: Path) -> dict[str, int]:
    """The id of each piece in a vocab.json; empty if there is no such file."""
    vocabulary = _read_json_if_present(file)
    check_value(str(file), "its vocabulary", vocabulary, dict[str, int])
    return vocabulary


def _token_text(token: Any) -> str | None:
    """The text of a special token, which a config has as a string or as {"content": ...}."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None
