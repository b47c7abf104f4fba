"""Sounds of any format, rate and number of channels are read as one channel at one rate."""

import numpy as np
import pytest

from regard.errors import FileError, InputError
from regard.loading import sounds
from regard.loading.sounds import prepare_samples, read_sound

soundfile = pytest.importorskip("soundfile")
soxr = pytest.importorskip("soxr")
RATE = 16_000


def a_tone(seconds=1.0, rate=RATE, frequency=440):
    return (0.5 * np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)).astype(
        np.float32
    )


@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "mp3"])
def test_every_format_is_read(tmp_path, suffix):
    path = tmp_path / f"tone.{suffix}"
    soundfile.write(path, a_tone(), RATE)
    samples = read_sound(path, RATE)
    assert samples.dtype == np.float32
    assert len(samples) == pytest.approx(RATE, rel=0.15)  # mp3 adds silence at both ends
    assert np.abs(samples).max() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000])
def test_another_rate_is_resampled_as_a_whole_file_would_be(tmp_path, monkeypatch, rate):
    monkeypatch.setattr(sounds, "_BLOCK", 1_000)
    soundfile.write(tmp_path / "tone.wav", a_tone(rate=rate), rate, subtype="FLOAT")
    samples = read_sound(tmp_path / "tone.wav", RATE)
    expected = soxr.resample(a_tone(rate=rate), rate, RATE)
    assert abs(len(samples) - len(expected)) <= 1
    np.testing.assert_allclose(samples[: len(expected)], expected[: len(samples)], atol=1e-4)


def test_channels_are_averaged(tmp_path):
    left, right = a_tone(), np.zeros(RATE, np.float32)
    soundfile.write(tmp_path / "two.wav", np.stack([left, right], 1), RATE, subtype="FLOAT")
    np.testing.assert_allclose(read_sound(tmp_path / "two.wav", RATE), left / 2, atol=1e-6)
    np.testing.assert_allclose(
        prepare_samples(np.stack([left, right], 1), RATE, RATE), left / 2, atol=1e-6
    )


def test_what_is_no_sound_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "text.wav").write_text("I love you")
    with pytest.raises(FileError, match="is no sound; give a WAV, FLAC, OGG or MP3 file"):
        read_sound(tmp_path / "text.wav", RATE)
    with pytest.raises(FileError, match=r"cannot read the sound .*: No such file"):
        read_sound(tmp_path / "gone.wav", RATE)
    with pytest.raises(FileError, match=r"cannot read the sound .*: Is a directory"):
        read_sound(tmp_path, RATE)
    soundfile.write(tmp_path / "silent.wav", np.zeros(RATE), RATE)
    with pytest.raises(InputError, match=r"silent.wav is silent"):
        read_sound(tmp_path / "silent.wav", RATE)
    soundfile.write(tmp_path / "empty.wav", np.zeros(0), RATE)
    with pytest.raises(InputError, match=r"lasts 0.000 s; there is nothing to hear"):
        read_sound(tmp_path / "empty.wav", RATE)
    soundfile.write(tmp_path / "slow.wav", a_tone(), 100)
    with pytest.raises(InputError, match="has 100 samples a second"):
        read_sound(tmp_path / "slow.wav", RATE)


def test_a_sound_of_three_hours_is_refused_before_it_is_read(tmp_path, monkeypatch):
    soundfile.write(tmp_path / "long.flac", np.zeros(3 * 3600 * 1000, np.int16), 1000)
    monkeypatch.setattr(sounds, "_read_blocks", None)
    with pytest.raises(InputError, match=r"long.flac lasts 3 h 00 min; expected at most 2 hours"):
        read_sound(tmp_path / "long.flac", RATE)


def test_without_the_packages_the_way_to_get_them_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(sounds, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'regard\[audio\]'"):
        read_sound(tmp_path / "a.wav", RATE)
    with pytest.raises(InputError, match=r"to resample sounds: pip install 'regard\[audio\]'"):
        prepare_samples(a_tone(), RATE, 8_000)
