"""Sounds for a model: read from files, made mono and resampled to the rate that the model hears.

A file is read in blocks, of which each is mixed to one channel and resampled before the next is
read: an hour of stereo at 48,000 samples a second would fill 1.4 GB otherwise.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from regard.arguments import check_first_argument
from regard.errors import FileError, InputError

__all__ = ["Samples", "prepare_samples", "read_sound"]

Samples = Float[ndarray, " sample"]

LONGEST_HOURS = 2  # of a sound; its features take about 150 MB an hour
_SHORTEST_SECONDS = 0.05
_SILENCE = 1e-4  # the largest amplitude of a sound in which nothing can be heard
_BLOCK = 1 << 18  # samples that are read at a time
_RATES = range(1_000, 1_000_001)  # samples in a second


@check_first_argument
def read_sound(path: Path, rate: int) -> Samples:
    """The sound of a WAV, FLAC, OGG or MP3 file with one channel and `rate` samples a second."""
    for package in ("soundfile", "soxr"):
        if find_spec(package) is None:
            raise InputError("to read sounds: pip install 'regard[audio]'")
    import soundfile

    try:
        with path.open("rb") as opened, soundfile.SoundFile(opened) as file:
            _check_file(file, path)
            samples = _read_blocks(file, rate)
    except soundfile.LibsndfileError:
        raise FileError(f"{path} is no sound; give a WAV, FLAC, OGG or MP3 file") from None
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot read the sound {path}: {error.strerror or error}") from error
    return _check_samples(samples, rate, str(path))


def prepare_samples(samples: Any, own_rate: int, rate: int) -> Samples:
    """Samples in memory (sample) or (sample channel), mixed to one channel and resampled."""
    values = np.asarray(samples)
    if values.ndim not in (1, 2) or not np.issubdtype(values.dtype, np.floating):
        raise InputError(
            "expected the samples of a sound as floats with one axis, or (sample channel), got "
            f"{values.dtype} of shape {values.shape}"
        )
    _check_rate(own_rate, "the sound")
    if len(values) > LONGEST_HOURS * 3600 * own_rate:
        raise InputError(_too_long("the sound", len(values) / own_rate))
    mono = values.mean(axis=1) if values.ndim == 2 else values
    mono = np.ascontiguousarray(mono, dtype=np.float32)
    if own_rate != rate:
        if find_spec("soxr") is None:
            raise InputError("to resample sounds: pip install 'regard[audio]'")
        import soxr

        mono = soxr.resample(mono, own_rate, rate)
    return _check_samples(mono, rate, "the sound")


def _check_file(file: Any, path: Path) -> None:
    """Refuse a rate that no sound has, and a file that is too long, before it is read."""
    _check_rate(file.samplerate, str(path))
    if file.frames > LONGEST_HOURS * 3600 * file.samplerate:
        raise InputError(_too_long(str(path), file.frames / file.samplerate))


def _check_rate(rate: int, name: str) -> None:
    """Refuse a number of samples a second that no sound has."""
    if rate not in _RATES:
        raise InputError(
            f"{name} has {rate} samples a second; expected {_RATES[0]:,} to {_RATES[-1]:,}"
        )


def _too_long(name: str, seconds: float) -> str:
    """The sentence about a sound that is too long."""
    hours, minutes = int(seconds // 3600), int(seconds % 3600 // 60)
    return (
        f"{name} lasts {hours} h {minutes:02} min; expected at most {LONGEST_HOURS} hours: cut it "
        "into parts"
    )


def _read_blocks(file: Any, rate: int) -> Samples:
    """The samples of an opened file, mixed and resampled block by block."""
    import soxr

    stream = None
    if file.samplerate != rate:
        stream = soxr.ResampleStream(file.samplerate, rate, 1, dtype="float32")
    # what the header says of the length may be wrong, so that the blocks are counted
    left, parts = LONGEST_HOURS * 3600 * file.samplerate, []
    while left > 0:
        block = file.read(min(_BLOCK, left), dtype="float32", always_2d=True)
        left -= len(block)
        mono = block.mean(axis=1, dtype=np.float32)
        parts.append(mono if stream is None else stream.resample_chunk(mono))
        if not len(block):
            break
    if stream is not None:
        parts.append(stream.resample_chunk(np.zeros(0, np.float32), last=True))
    return np.concatenate(parts)


def _check_samples(samples: Samples, rate: int, name: str) -> Samples:
    """The samples themselves; refused if there is nothing to hear in them."""
    if len(samples) < _SHORTEST_SECONDS * rate:
        raise InputError(f"{name} lasts {len(samples) / rate:.3f} s; there is nothing to hear")
    if not np.isfinite(samples).all():
        raise InputError(f"{name} has samples that are no finite numbers; write the file again")
    if float(np.abs(samples).max()) < _SILENCE:
        raise InputError(f"{name} is silent; give a sound in which somebody speaks")
    return samples
