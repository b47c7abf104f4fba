"""Small intact files of every format that regard reads, which the campaign of files mutates."""

import json
import struct
import warnings
import wave
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

import regard
from regard.loading import read_picture
from regard.models import Captioner, Recurrent, Tokenizer, Transformer, from_pretrained
from regard.models.generation import GenerationSettings
from regard.models.low_rank import add_low_rank
from regard.models.tokenizers import TokenizerPair
from regard.storage import save_trace
from regard.studies.survey import save_survey, survey
from regard.studies.survey.run import PORTION
from regard.types import Trace
from regard.views import View

__all__ = ["PICTURES", "build_samples"]

ENGLISH = ("I love you", "we love tea", "I see you", "we see tea", "you love me")
CHINESE = ("我爱你", "我们爱茶", "我看见你", "我们看见茶", "你爱我")
PICTURES = {"picture.png": "PNG", "picture.jpg": "JPEG", "picture.gif": "GIF", "picture.bmp": "BMP"}
_PICTURE_SETTINGS = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "do_resize": True}
_RECIPE = """\
task = "translation"
folder = "run"
seed = 1

[data]
train = ["pairs.tsv"]
dev = "pairs.tsv"
language = "zh"

[vocabulary]
kind = "word"
size = 300
target_kind = "character"
target_size = 300

[model]
class = "recurrent"
d_embed = 5
hidden = 6
dropout = 0.1

[plan]
steps = 3
tokens = 64
rate = 5e-3
warmup = 1
betas = [0.9, 0.98]
evaluate_every = 2
save_every = 1
"""


def build_samples(folder: Path, *, light: bool) -> None:
    """Write all samples into a folder, `light` without those that transformers writes."""
    torch.manual_seed(0)
    _write_texts(folder)
    _write_pictures(folder)
    _write_sound(folder)
    _write_own_models(folder)
    _write_older_tokenizers(folder)
    if not light and find_spec("transformers") is not None:
        _write_transformers_models(folder)
    _write_traces_and_surveys(folder)
    _write_run(folder)


def _write_texts(folder: Path) -> None:
    """Corpora, alignments, word vectors and texts."""
    pairs = [*zip(ENGLISH, CHINESE, strict=True)]
    objects = [json.dumps({"source": one, "target": other}) for one, other in pairs]
    links = [f"{english}\t{' '.join(chinese)}\t1-1 2p1" for english, chinese in pairs]
    vectors = [f"{word} 0.1 -0.2 0.3 1e-2" for word in ("I", "love", "you", "我")]
    files = {
        "pairs.tsv": [f"{one}\t{other}" for one, other in pairs],
        "pairs.jsonl": objects,
        "bars.txt": [f"{one} ||| {' '.join(other)}" for one, other in pairs],
        "side.en": [*ENGLISH],
        "side.zh": [*CHINESE],
        "texts.txt": [*ENGLISH, "", *ENGLISH],
        "texts.jsonl": [json.dumps({"text": text}) for text in ENGLISH],
        "questions.jsonl": [
            json.dumps(
                {
                    "question": text,
                    "context": ENGLISH[0],
                    "answers": [{"text": ENGLISH[0][:1], "start": 0}],
                }
            )
            for text in ENGLISH
        ],
        "matches.tsv": [f"{text}\tlove\ttea" for text in ENGLISH],
        "matches.jsonl": [
            json.dumps({"question": text, "right": "love", "wrong": ["tea"]}) for text in ENGLISH
        ],
        "summaries.jsonl": [json.dumps({"text": text, "summary": text[:1]}) for text in ENGLISH],
        "facts.tsv": [f"{one}\tsays\t{other}" for one, other in pairs],
        "facts.jsonl": [
            json.dumps({"subject": one, "relation": "says", "object": other})
            for one, other in pairs
        ],
        "labels.tsv": [f"{text}\t{index % 2}" for index, text in enumerate(ENGLISH)],
        "labels.jsonl": [json.dumps({"text": text, "label": 1}) for text in ENGLISH],
        "gold.tsv": links,
        "links.txt": ["1-1 2-1 1p2"] * len(pairs),
        "vectors.txt": [f"{len(vectors)} 4", *vectors],
        "name.txt": ["additive"],
    }
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_pictures(folder: Path) -> None:
    """One picture in several formats."""
    from PIL import Image

    levels = np.zeros((19, 23, 3), np.uint8)
    levels[5:11, 7:13] = (255, 120, 0)
    for name, kind in PICTURES.items():
        Image.fromarray(levels).save(folder / name, kind)


def _write_sound(folder: Path) -> None:
    """A second of a tone at 8,000 samples a second."""
    levels = (9000 * np.sin(np.arange(8_000) / 7)).astype(np.int16)
    with wave.open(str(folder / "talk.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8_000)
        file.writeframes(levels.tobytes())


def _tokenizer() -> Tokenizer:
    """A tokenizer for both languages."""
    return Tokenizer.train([*ENGLISH, *CHINESE] * 5, "bpe", 320, chinese="character")


def _save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write a model of our own with its tokenizer; it writes three tokens at most."""
    if tokenizer is not None:
        target = tokenizer.target
        model.tokenizer = tokenizer
        model.generation = GenerationSettings().replace(
            decoder_start_token_id=target.bos_token_id,
            eos_token_id=target.eos_token_id,
            pad_token_id=target.pad_token_id,
            max_new_tokens=3,
        )
    model.eval().save_pretrained(folder)


def _write_own_models(folder: Path) -> None:
    """A folder for each class of our own."""
    one = _tokenizer()
    source = Tokenizer.train([*ENGLISH] * 5, "word", 300)
    pair = TokenizerPair(source, Tokenizer.train([*CHINESE] * 5, "character", 300))
    sizes = {"d_model": 12, "layers": 2, "heads": 3, "d_ff": 17, "dropout": 0.0}
    pictures = {"image_size": 16, "patch": 4, "positions": "learned", "pooling": "first"}
    _save(Recurrent(vocab=len(one), d_embed=7, hidden=10, dropout=0.0), one, folder / "recurrent")
    both = Transformer(vocab=len(pair.source), target_vocab=len(pair.target), **sizes)
    _save(both, pair, folder / "translator")
    decoder = Transformer(kind="decoder", vocab=len(one), max_positions=37, **sizes)
    _save(decoder, one, folder / "decoder")
    for name, head in (("classifier", "classes"), ("reader", "spans")):
        model = Transformer(kind="encoder", vocab=len(one), head=head, **sizes)
        _save(model, one, folder / name)
    adapted = from_pretrained(folder / "classifier")
    add_low_rank(adapted, 2, frozen=1)
    adapted.save_pretrained(folder / "adapted", base="classifier")
    vision = Transformer(kind="vision", head="classes", labels=5, **pictures, **sizes)
    _save(vision, None, folder / "vision")
    captioner = Captioner(vocab=len(one), d_embed=7, hidden=10, widths=(4, 6), dropout=0.0)
    _save(captioner, one, folder / "captioner")
    for name in ("vision", "captioner"):
        (folder / name / "preprocessor_config.json").write_text(json.dumps(_PICTURE_SETTINGS))


def _write_older_tokenizers(folder: Path) -> None:
    """Folders with the vocabularies of BERT, of GPT-2 and of SentencePiece, without any model."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "i", "love", "you", "##s"]
    letters = {letter: number for number, letter in enumerate("abcdefgĠIlovy")}
    merges = ["#version: 0.2", "l o", "lo v", "lov e"]
    pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("▁I", -1.0, 1), ("▁", -2.0, 1)]
    pieces += [(letter, -3.0 - number, 1) for number, letter in enumerate("Iloveyu")]
    letters |= {piece: len(letters) + number for number, piece in enumerate(["lo", "lov", "love"])}
    ids = {piece: number for number, (piece, _, _) in enumerate(pieces)} | {"<pad>": len(pieces)}
    files = {
        "wordpiece/vocab.txt": "\n".join(words),
        "bytelevel/vocab.json": json.dumps(letters | {"<|endoftext|>": len(letters)}),
        "bytelevel/merges.txt": "\n".join(merges),
        "pieces/vocab.json": json.dumps(ids),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("source.spm", "target.spm"):
        (folder / "pieces" / name).write_bytes(_sentencepiece_model(pieces))


def _sentencepiece_model(pieces: list[tuple[str, float, int]]) -> bytes:
    """A SentencePiece model: a protobuf message with a submessage for each piece."""
    message = b""
    for piece, score, kind in pieces:
        text = piece.encode()
        inner = b"\x0a" + bytes([len(text)]) + text + b"\x15" + struct.pack("<f", score)
        inner += b"\x18" + bytes([kind])
        message += b"\x0a" + bytes([len(inner)]) + inner
    return message + b"\x12\x02\x18\x01"


def _write_transformers_models(folder: Path) -> None:
    """A folder for each converted family, and one that only transformers can load."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import transformers as hf

        hf.logging.set_verbosity_error()
        hf.logging.disable_progress_bar()
        for name, (model, reader) in _transformers_models(hf, _tokenizer()).items():
            model.save_pretrained(folder / name)
            reader.save(folder / name) if isinstance(reader, Tokenizer) else reader.save_pretrained(
                folder / name
            )


def _transformers_models(hf: Any, tokenizer: Tokenizer) -> dict[str, tuple[Any, Any]]:
    """Tiny models of transformers with random weights, each with what reads its inputs."""
    body = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}
    body |= {"intermediate_size": 29}
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 61}
    gpt2 = {"n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 61}
    sides = {"d_model": 12, "encoder_layers": 2, "decoder_layers": 2, "pad_token_id": 1}
    sides |= {"encoder_attention_heads": 3, "decoder_attention_heads": 2}
    sides |= {"encoder_ffn_dim": 23, "decoder_ffn_dim": 29, "decoder_start_token_id": 1}
    side = {"height": 16, "width": 16}
    pixels = hf.ViTImageProcessorPil(size=side)
    return {
        "gpt2": (
            hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=len(tokenizer), **gpt2)),
            tokenizer,
        ),
        "llama": (hf.LlamaForCausalLM(hf.LlamaConfig(**text, **body)), tokenizer),
        "bert": (hf.BertForMaskedLM(hf.BertConfig(**text, **body)), tokenizer),
        "marian": (hf.MarianMTModel(hf.MarianConfig(**text, **sides)), tokenizer),
        "vit": (
            hf.ViTForImageClassification(hf.ViTConfig(image_size=16, patch_size=4, **body)),
            pixels,
        ),
        "foreign": (
            hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**text, **body | {"hidden_size": 24})),
            tokenizer,
        ),
    }


def _write_traces_and_surveys(folder: Path) -> None:
    """Traces with recomputable and with dense weights, views, surveys and a survey's state."""
    loaded = regard.load(folder / "translator", device="cpu")
    trace = regard.capture(loaded.model, loaded.processor, "I love you", generate=True)
    save_trace(trace, folder / "recomputed.trace")
    seeing = regard.load(folder / "vision", device="cpu")
    image = read_picture(folder / "picture.png")
    save_trace(regard.capture(seeing.model, seeing.processor, image), folder / "vision.trace")
    dense = Trace.from_weights(torch.eye(3), ["我", "爱", "中国"])
    save_trace(dense, folder / "dense.trace")
    regard.view(trace).save(folder / "view.json")
    report: View = regard.report([trace], regard.diagnose([trace]))
    report.save(folder / "report.json")
    pairs = [*zip(ENGLISH, CHINESE, strict=True)]
    table = survey(loaded.model, loaded.tokenizer, pairs, state=folder / "survey.csv.state")
    assert len(pairs) < PORTION  # so that the state that is left is that of the first portion
    for suffix in (".json", ".csv", *((".parquet",) if find_spec("pyarrow") else ())):
        save_survey(table, folder / f"survey{suffix}")


def _write_run(folder: Path) -> None:
    """A recipe, and the folder of a run that ended after some steps."""
    place = folder / "training"
    place.mkdir()
    (place / "recipe.toml").write_text(_RECIPE, encoding="utf-8")
    (place / "pairs.tsv").write_bytes((folder / "pairs.tsv").read_bytes())
    regard.train(place / "recipe.toml", device="cpu", changes={"plan.steps": 2})
