"""Small folders with models of every kind, ours and of Hugging Face, with random weights."""

import warnings
from pathlib import Path

import numpy as np

from regard.models import Captioner, Recurrent, Tokenizer, Transformer
from regard.models.generation import GenerationSettings

LINES = ["I love you", "我爱你", "we love tea", "我们爱茶"] * 5
BODY = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}


def a_tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES, "bpe", 320, chinese="character")


def saved(model, place: Path, **settings) -> str:
    """The folder of a model of ours, which writes a few tokens at most."""
    if model.tokenizer is not None:
        model.generation = GenerationSettings().replace(
            decoder_start_token_id=model.tokenizer.bos_token_id,
            eos_token_id=model.tokenizer.eos_token_id,
            pad_token_id=model.tokenizer.pad_token_id,
            max_new_tokens=5,
            **settings,
        )
    model.eval().save_pretrained(place)
    return str(place)


def a_translator(place: Path) -> str:
    tokenizer = a_tokenizer()
    model = Recurrent(vocab=len(tokenizer), d_embed=7, hidden=10, dropout=0.0)
    model.tokenizer = tokenizer
    return saved(model, place)


def a_teller(place: Path, positions: int = 37) -> str:
    """Continues texts; it reads few tokens, or as many as asked."""
    tokenizer = a_tokenizer()
    model = Transformer(
        kind="decoder", vocab=len(tokenizer), d_model=12, layers=2, heads=3, d_ff=17,
        dropout=0.0, max_positions=positions,
    )  # fmt: skip
    model.tokenizer = tokenizer
    return saved(model, place)


def a_reader(place: Path) -> str:
    """Reads texts and writes nothing."""
    tokenizer = a_tokenizer()
    model = Transformer(
        kind="encoder", vocab=len(tokenizer), d_model=12, layers=2, heads=3, d_ff=17
    )
    model.tokenizer = tokenizer
    return saved(model, place)


def a_seer(place: Path) -> str:
    return saved(
        Transformer(
            kind="vision", d_model=12, layers=2, heads=3, d_ff=17, head="classes", labels=5,
            image_size=16, patch=4, positions="learned", pooling="first",
        ),
        place,
    )  # fmt: skip


def a_captioner(place: Path) -> str:
    tokenizer = a_tokenizer()
    model = Captioner(vocab=len(tokenizer), d_embed=7, hidden=10, widths=(4, 6), dropout=0.0)
    model.tokenizer = tokenizer
    return saved(model, place)


def foreign(kind: str, place: Path) -> str:
    """The folder of a model of transformers that is none of our architectures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import transformers as hf

        from tracing import readers

        model, reader = _FOREIGN[kind](hf, readers)
        model.save_pretrained(place)
        reader.save_pretrained(place)
    return str(place)


def _causal(hf, readers):
    reader = readers.padded_byte_level()
    config = hf.GPTNeoXConfig(vocab_size=len(reader), max_position_embeddings=61, **BODY)
    return hf.GPTNeoXForCausalLM(config), reader


def _masked(hf, readers):
    reader, names = readers.word_piece(), {"dim": 24, "n_layers": 2, "n_heads": 2}
    config = hf.DistilBertConfig(
        vocab_size=len(reader), hidden_dim=32, max_position_embeddings=61, **names
    )
    return hf.DistilBertForMaskedLM(config), reader


def _classifier(hf, readers):
    reader = readers.word_piece()
    config = hf.ElectraConfig(vocab_size=len(reader), embedding_size=24, **BODY)
    return hf.ElectraForSequenceClassification(config), reader


def _both(hf, readers):
    reader = readers.unigram()
    config = hf.T5Config(
        vocab_size=len(reader), d_model=24, d_kv=12, d_ff=32, num_layers=2, num_heads=2,
        decoder_start_token_id=0, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return hf.T5ForConditionalGeneration(config), reader


def _picture_reader(hf, family):
    """The image processor that needs no torchvision, by its name in transformers 5 or 4."""
    name = f"{family}ImageProcessor"
    return getattr(hf, f"{name}Pil", None) or getattr(hf, name)


def _seer(hf, readers):
    side = {"height": 32, "width": 32}
    reader = _picture_reader(hf, "DeiT")(size=side, crop_size=side)
    return hf.DeiTForImageClassification(hf.DeiTConfig(image_size=32, patch_size=8, **BODY)), reader


def _vit(hf, readers):
    side = {"height": 32, "width": 32}
    reader = _picture_reader(hf, "ViT")(size=side)
    return hf.ViTForImageClassification(hf.ViTConfig(image_size=32, patch_size=8, **BODY)), reader


_FOREIGN = {
    "causal": _causal,
    "masked": _masked,
    "classifier": _classifier,
    "both": _both,
    "seer": _seer,
    "vit": _vit,
}


def a_picture(path: Path, kind: str = "PNG") -> str:
    from PIL import Image

    levels = np.zeros((19, 23, 3), np.uint8)
    levels[5:11, 7:13] = (255, 120, 0)
    Image.fromarray(levels).save(path, kind)
    return str(path)
