"""Tiny random models of speech in folders of their own, and sounds for them."""

import json
import string
import warnings
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers as hf

RATE = 16_000
WINDOW = 2  # seconds that the tiny Whisper hears at once
_BODY = {"d_model": 24, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
_LAYERS = {"encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
_SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", "<|transcribe|>", "<|notimestamps|>"]
_TIMES = [f"<|{0.02 * number:.2f}|>" for number in range(1501)]


def a_sound(seconds: float, rate: int = RATE, seed: int = 0) -> np.ndarray:
    """Noise whose loudness changes, so that the frames differ."""
    noise = np.random.default_rng(seed).normal(0, 0.2, round(seconds * rate))
    swell = np.sin(np.arange(len(noise)) / rate * 7) ** 2
    return (noise * swell).astype(np.float32)


def a_whisper(folder: Path, alignment_heads=((0, 1), (1, 0))) -> str:
    """A Whisper that hears two seconds at once and writes letters and spaces."""
    tokenizer = _byte_tokenizer(folder)
    letters = {tokenizer.token_to_id(letter) for letter in ("a", "Ġ")}
    size = tokenizer.get_vocab_size()
    start, last = (tokenizer.token_to_id(text) for text in (_SPECIAL[1], _SPECIAL[3]))
    config = hf.WhisperConfig(
        vocab_size=size, num_mel_bins=16, max_source_positions=50 * WINDOW,
        max_target_positions=40, decoder_start_token_id=start, eos_token_id=256, pad_token_id=256,
        bos_token_id=256, init_std=0.6, begin_suppress_tokens=None, suppress_tokens=None,
        **_BODY, **_LAYERS,
    )  # fmt: skip
    torch.manual_seed(5)
    model = hf.WhisperForConditionalGeneration(config)
    with torch.no_grad():  # these weights write a and b in turns: b becomes the space
        table = model.proj_out.weight
        table[tokenizer.token_to_id("Ġ")] = table[tokenizer.token_to_id("b")]
    settings = model.generation_config
    settings.max_length = 30
    settings.is_multilingual = False
    settings.no_timestamps_token_id = last
    # random weights write times in no order; here all but the first are left out
    others = {tokenizer.token_to_id(text) for text in (*_SPECIAL[1:], *_TIMES[1:])}
    settings.suppress_tokens = sorted({*range(256)} - letters | others)
    if alignment_heads:
        settings.alignment_heads = [list(pair) for pair in alignment_heads]
    model.save_pretrained(folder)
    _correct_generation_config(folder)
    hf.WhisperFeatureExtractor(feature_size=16, chunk_length=WINDOW).save_pretrained(folder)
    _add_to(folder / "preprocessor_config.json", processor_class="WhisperProcessor")
    return str(folder)


def _byte_tokenizer(folder: Path) -> Tokenizer:
    """A tokenizer of single bytes, with the special tokens of Whisper."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: n for n, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(_SPECIAL)
    tokenizer.add_tokens(_TIMES)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    end = _SPECIAL[0]
    names = {"bos_token": end, "eos_token": end, "unk_token": end, "pad_token": end}
    settings = {"tokenizer_class": "WhisperTokenizerFast", "model_max_length": 40, **names}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return tokenizer


def _correct_generation_config(folder: Path) -> None:
    """Keep transformers from deriving the generation config from the model's, without heads."""
    file = folder / "generation_config.json"
    settings = json.loads(file.read_text())
    settings.pop("_from_model_config", None)
    file.write_text(json.dumps(settings))


def _add_to(file: Path, **settings: str) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


def a_ctc_model(folder: Path) -> str:
    """A Wav2Vec2 with a frame for each 20 samples, which writes letters and spaces."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = ["<pad>", "<s>", "</s>", "<unk>", "|", *string.ascii_uppercase[:4]]
    (folder / "vocab.json").write_text(json.dumps({text: n for n, text in enumerate(pieces)}))
    tokenizer = hf.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"))
    extractor = hf.Wav2Vec2FeatureExtractor(return_attention_mask=False)
    config = hf.Wav2Vec2Config(
        vocab_size=len(pieces), hidden_size=24, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, conv_dim=(8, 8), conv_kernel=(40, 8), conv_stride=(40, 8),
        num_feat_extract_layers=2, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2,
        pad_token_id=0, initializer_range=0.5,
    )  # fmt: skip
    torch.manual_seed(5)
    model = hf.Wav2Vec2ForCTC(config).eval()
    with torch.no_grad():  # random weights prefer one letter; here all are as likely on the whole
        torch.nn.init.normal_(model.lm_head.weight)
        heard = extractor(a_sound(2.0), sampling_rate=RATE, return_tensors="pt")["input_values"]
        model.lm_head.bias -= model(heard).logits[0].mean(0)
        model.lm_head.bias[1:4] = -100.0  # special tokens
    model.save_pretrained(folder)
    hf.Wav2Vec2Processor(extractor, tokenizer).save_pretrained(folder)
    return str(folder)
