"""`transcribe` gives the text and the word times that transformers gives with the same weights."""

import warnings

import numpy as np
import pytest
import torch

import regard
from loading import checkpoints
from regard.errors import FileError, InputError
from tasks.tiny_speech import RATE, WINDOW, a_ctc_model, a_sound, a_whisper

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers as hf


@pytest.fixture(scope="module")
def whisper(tmp_path_factory):
    return regard.load(a_whisper(tmp_path_factory.mktemp("whisper")), device="cpu")


@pytest.fixture(scope="module")
def ctc(tmp_path_factory):
    return regard.load(a_ctc_model(tmp_path_factory.mktemp("ctc")), device="cpu")


def by_transformers(loaded, samples):
    """The text, and the words with their times, of the pipeline of transformers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transcriber = hf.pipeline(
            "automatic-speech-recognition",
            model=loaded.model,
            tokenizer=loaded.processor.tokenizer,
            feature_extractor=loaded.processor.feature_extractor,
        )
        greedy = {"num_beams": 1} if loaded.translates else {}
        found = transcriber(
            {"raw": samples.copy(), "sampling_rate": RATE},
            return_timestamps="word",
            **({"generate_kwargs": greedy} if greedy else {}),
        )
    words = [(each["text"].strip(), *each["timestamp"]) for each in found["chunks"]]
    return found["text"].strip(), [word for word in words if word[0]]


@pytest.mark.parametrize("seed", range(3))
def test_whisper_writes_the_text_and_the_times_of_transformers(whisper, seed):
    samples = a_sound(1.7, seed=seed)
    result = regard.transcribe((samples, RATE), whisper)
    text, words = by_transformers(whisper, samples)
    assert len(words) > 1
    assert result.answer == text
    assert [word.text for word in result.words] == [word for word, _, _ in words]
    for word, (_, start, end) in zip(result.words, words, strict=True):
        assert (word.start, word.end) == (
            pytest.approx(start, abs=0.006),
            pytest.approx(end, abs=0.006),
        )


def test_a_sound_of_several_windows_has_the_text_of_transformers(whisper):
    samples = a_sound(2.6 * WINDOW)
    result = regard.transcribe((samples, RATE), whisper)
    text, _ = by_transformers(whisper, samples)
    assert result.answer == text
    assert len(result.windows) > 1
    starts = [word.start for word in result.words]
    assert starts == sorted(starts)
    assert starts[-1] > WINDOW


def test_the_trace_is_the_attention_of_the_tokens_to_the_frames(whisper):
    result = regard.transcribe((a_sound(1.1), RATE), whisper)
    cross = result.trace.of("cross")
    assert len(cross) == 2
    assert result.trace.tokens(cross[0].columns).texts[:3] == ("0.00 s", "0.02 s", "0.04 s")
    view = regard.view(result)
    assert view.state.view == "heatmap"
    columns = view.scene.traces[0].site(view.state.site).columns
    assert len(columns) == 55  # of 100: the others are the silence after the sound
    bare = regard.transcribe((a_sound(1.1), RATE), whisper, trace=False)
    assert bare.words == result.words
    with pytest.raises(InputError, match="trace=True"):
        _ = bare.trace


def test_without_named_heads_the_upper_half_of_the_layers_is_aligned(tmp_path):
    loaded = regard.load(a_whisper(tmp_path / "bare", alignment_heads=()), device="cpu")
    named = regard.load(
        a_whisper(tmp_path / "named", alignment_heads=((1, 0), (1, 1))), device="cpu"
    )
    results = [regard.transcribe((a_sound(1.3), RATE), each) for each in (loaded, named)]
    assert results[0].words == results[1].words
    assert len(results[0].words) > 1


def test_the_score_is_the_log_probability_per_token(whisper):
    samples = a_sound(0.9)
    result = regard.transcribe((samples, RATE), whisper)
    (window,) = result.windows
    ids = window.trace.tokens(window.trace.of("cross")[0].rows).ids
    features = whisper.processor.feature_extractor(samples, sampling_rate=RATE, return_tensors="pt")
    with torch.no_grad():
        logits = whisper.model(
            input_features=features["input_features"], decoder_input_ids=torch.tensor([ids])
        ).logits
    steps = logits[0, :-1].log_softmax(-1).gather(1, torch.tensor(ids)[1:, None])
    assert result.score == pytest.approx(float(steps.mean()), abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_ctc_writes_the_text_and_the_times_of_transformers(ctc, seed):
    samples = a_sound(0.9, seed=seed)
    result = regard.transcribe((samples, RATE), ctc)
    text, words = by_transformers(ctc, samples)
    assert len(words) > 1
    assert result.answer == text
    assert [word.text for word in result.words] == [word for word, _, _ in words]
    for word, (_, start, end) in zip(result.words, words, strict=True):
        assert (word.start, word.end) == (
            pytest.approx(start, abs=0.006),
            pytest.approx(end, abs=0.006),
        )


def test_a_long_sound_is_heard_by_ctc_in_windows_whose_frames_meet(ctc, monkeypatch):
    samples = a_sound(3.05)
    whole = regard.transcribe((samples, RATE), ctc, trace=False)
    monkeypatch.setattr("regard.tasks.ctc._WHOLE", 2)
    monkeypatch.setattr("regard.tasks.ctc._INNER", 1)
    monkeypatch.setattr("regard.tasks.ctc._MARGIN", 1)
    cut = regard.transcribe((samples, RATE), ctc, trace=False)
    assert [(each.start, each.stop) for each in cut.windows] == [
        (0, 2000), (0, 3000), (1000, 3050), (2000, 3050),
    ]  # fmt: skip
    # the model hears the windows with other surroundings, but no frame is lost or heard twice
    assert cut.words[-1].end <= 3.05
    assert len(cut.answer) == pytest.approx(len(whole.answer), rel=0.25)


def test_samples_of_another_rate_and_of_two_channels_are_heard(whisper):
    pytest.importorskip("soxr")
    tone = np.sin(np.arange(22_050) / 22_050 * 440).astype(np.float32)
    stereo = np.stack([tone, tone], axis=1)
    first, second = (
        regard.transcribe((samples, 22_050), whisper, trace=False) for samples in (tone, stereo)
    )
    assert first.answer == second.answer


@pytest.mark.parametrize(
    ("sound", "error", "message"),
    [
        ("I love you", FileError, "there is no file 'I love you'; give the path of a WAV"),
        (np.zeros(RATE, np.float32), InputError, "expected a sound: a path, or a pair"),
        ((np.zeros(RATE, np.float32), RATE), InputError, "is silent; give a sound in which"),
        ((np.full(RATE, np.nan, np.float32), RATE), InputError, "no finite numbers"),
        ((np.zeros(RATE, np.int16), RATE), InputError, "as floats with one axis"),
        ((np.ones(100, np.float32), RATE), InputError, "lasts 0.006 s; there is nothing to hear"),
        ((np.ones(RATE, np.float32), 3), InputError, "3 samples a second; expected 1,000 to"),
        (
            (np.broadcast_to(np.float32(1), 3 * 3600 * 1000), 1000),
            InputError,
            "lasts 3 h 00 min; expected at most 2 hours",
        ),
    ],
)
def test_what_is_no_sound_is_refused(whisper, sound, error, message):
    with pytest.raises(error, match=message):
        regard.transcribe(sound, whisper)


def test_a_model_of_another_task_is_refused(tmp_path, ctc):
    folder = checkpoints.a_translator(tmp_path / "translator")
    with pytest.raises(InputError, match="writes no text about a sound; name a Whisper or ForCTC"):
        regard.transcribe("a.wav", folder)
    with pytest.raises(InputError, match="no model for transcribe is shipped"):
        regard.transcribe("a.wav")
    with pytest.raises(InputError, match="has no settings"):
        regard.transcribe((a_sound(0.5), RATE), ctc, language="en")
