"""Real tokenizers, trained here on a few sentences, and what else reads inputs for models."""

import functools
import warnings

import numpy as np
import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import BpeTrainer, UnigramTrainer, WordPieceTrainer

SENTENCES = [
    "I love you.",
    "I love playing chess, and playing football.",
    "我爱中国。",
    "我爱你，你爱我。",
    "A smile 😀 is worth more than a thumb 👍🏽!",
]
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
END, UNKNOWN = "<|end|>", "[UNK]"
_NAMES = dict(zip(["pad_token", "bos_token", "eos_token", "unk_token"], SPECIAL, strict=True))


def _fast(backend, **names):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return hf.PreTrainedTokenizerFast(
            tokenizer_object=backend,
            model_input_names=["input_ids", "attention_mask"],  # transformers 4 would add segments
            **names,
        )


@functools.cache
def byte_level():
    """As GPT-2 has it: without padding."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = BpeTrainer(
        vocab_size=290, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(SENTENCES, trainer)
    backend.add_tokens(["<é 1>"])
    return _fast(backend, eos_token=END)


@functools.cache
def padded_byte_level():
    tokenizer = byte_level.__wrapped__()
    tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


@functools.cache
def word_piece():
    """As BERT has it."""
    backend = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(cleanup=False)
    special = ["[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]"]
    trainer = WordPieceTrainer(vocab_size=101, special_tokens=special, show_progress=False)
    backend.train_from_iterator(SENTENCES, trainer)
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    roles = ["pad_token", "unk_token", "cls_token", "sep_token", "mask_token"]
    return _fast(backend, **dict(zip(roles, special, strict=True)))


def _framed(backend):
    backend.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 2)]
    )
    return _fast(backend, **_NAMES)


@functools.cache
def unigram():
    """As SentencePiece has it."""
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    trainer = UnigramTrainer(
        vocab_size=101, special_tokens=SPECIAL, unk_token=SPECIAL[-1], show_progress=False
    )
    backend.train_from_iterator(SENTENCES, trainer)
    return _framed(backend)


@functools.cache
def byte_fallback(split=True):
    """As Llama 2 has it: what it has no piece for is written in bytes; it need not cut words."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Metaspace(split=True)
    trainer = BpeTrainer(vocab_size=60, special_tokens=SPECIAL, show_progress=False)
    backend.train_from_iterator(SENTENCES[:2], trainer)
    vocabulary = backend.get_vocab()
    vocabulary |= {f"<0x{byte:02X}>": len(vocabulary) + byte for byte in range(256)}
    pairs = [
        (left, whole[len(left) :])
        for whole, _ in sorted(backend.get_vocab().items(), key=lambda each: each[1])
        for left in (whole[:cut] for cut in range(1, len(whole)))
        if whole not in SPECIAL and left in vocabulary and whole[len(left) :] in vocabulary
    ]
    backend = Tokenizer(models.BPE(vocabulary, pairs, unk_token=SPECIAL[-1], byte_fallback=True))
    backend.add_special_tokens(SPECIAL)
    backend.pre_tokenizer = pre_tokenizers.Metaspace(split=split)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    return _framed(backend)


class Slow:
    """A tokenizer in plain Python, one piece for each character: it knows no offsets."""

    is_fast = False
    all_special_ids = (0, 2)
    unk_token_id = None
    pad_token_id = 0
    eos_token_id = 2

    def __call__(self, texts, padding, return_tensors, return_offsets_mapping, **_):
        assert return_tensors == "pt"
        assert not return_offsets_mapping
        rows = [[*(3 + ord(each) % 97 for each in text), 2] for text in texts]
        most = max(map(len, rows))
        mask = [[1] * len(row) + [0] * (most - len(row)) for row in rows]
        ids = [row + [0] * (most - len(row)) for row in rows]
        return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}

    def convert_ids_to_tokens(self, ids):
        return [{0: "<pad>", 2: "</s>"}.get(each, f"c{each}") for each in ids]


class Images:
    """Pictures of 16 x 16 pixels, as they are; colours are the last axis of an array."""

    def __call__(self, images, return_tensors):
        assert return_tensors == "pt"
        pixels = torch.as_tensor(np.asarray(images), dtype=torch.float32)
        pixels = pixels.permute(2, 0, 1) if pixels.shape[-1] == 3 else pixels
        return {"pixel_values": pixels[None] / 255}


class Both:
    """Texts and pictures, for models that look at both."""

    def __init__(self, tokenizer):
        self.tokenizer, self.image_processor = tokenizer, Images()

    def __call__(self, text, images, return_tensors):
        encoded = self.tokenizer([text], return_tensors=return_tensors)
        return {**encoded, **self.image_processor(images, return_tensors)}


class Sounds:
    """A feature extractor and a tokenizer, as those of Whisper are kept together."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.feature_extractor = hf.WhisperFeatureExtractor(
            feature_size=8, chunk_length=1, hop_length=500
        )

    def __call__(self, **parts):
        raise AssertionError("each part is asked for itself")
