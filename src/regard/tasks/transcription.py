"""`transcribe`: what is said in a sound, and when each word is said."""

from pathlib import Path
from typing import Any, overload

import numpy as np

from regard.arguments import describe
from regard.errors import FileError, InputError
from regard.loading import LoadedModel
from regard.loading.sounds import Samples, prepare_samples, read_sound
from regard.tasks.ctc import transcribe_by_ctc
from regard.tasks.models import AnyModel, named_model
from regard.tasks.speech import Transcript
from regard.tasks.whisper import transcribe_by_whisper
from regard.types import Candidate, InputWindow, TaskResult

__all__ = ["transcribe"]

_UNNAMED = "sound"


@overload
def transcribe(
    sound: list[Any],
    model: AnyModel | None = ...,
    *,
    device: str | None = ...,
    trace: bool = ...,
    **settings: Any,
) -> list[TaskResult]: ...
@overload
def transcribe(
    sound: Any,
    model: AnyModel | None = ...,
    *,
    device: str | None = ...,
    trace: bool = ...,
    **settings: Any,
) -> TaskResult: ...
def transcribe(
    sound: object,
    model: AnyModel | None = None,
    *,
    device: str | None = None,
    trace: bool = True,
    **settings: Any,
) -> TaskResult | list[TaskResult]:
    """What is said in a sound, with the time of each word and the trace; a list for a list.

    `sound` is the path of a WAV, FLAC, OGG or MP3 file, or a pair of samples and their number in a
    second. `model` is a Whisper or a model with a CTC head (Wav2Vec2, HuBERT, ...): a folder, a hub
    name, or what `regard.load` returned, which saves loading it for each call. The settings are
    those of Whisper's `generate`, such as language="zh". `result.words` are the words with their
    start and end in seconds: of Whisper by dynamic time warping over the cross-attention, of CTC by
    the frames of the letters. The score is the log-probability per token. With trace=False only the
    attention is watched that the times need.
    """
    loaded = named_model("transcribe", model, device)
    sounds = sound if isinstance(sound, list) else [sound]
    results = [_transcribe_sound(loaded, one, settings, trace=trace) for one in sounds]
    return results if isinstance(sound, list) else results[0]


def _transcribe_sound(
    loaded: LoadedModel, sound: Any, settings: dict[str, Any], *, trace: bool
) -> TaskResult:
    """The result of one sound."""
    extractor = getattr(loaded.processor, "feature_extractor", None)
    if extractor is None:
        raise InputError(
            f"{loaded.name} does not say how it reads sounds; a folder that does holds "
            "preprocessor_config.json and a tokenizer"
        )
    samples, name = _read(sound, extractor.sampling_rate), _UNNAMED
    if isinstance(sound, str | Path):
        name = str(sound)
    if type(loaded.model).__name__.endswith("ForCTC"):
        if settings:
            raise InputError(
                f"{loaded.name} has no settings: it writes a letter for each frame; leave out "
                f"{', '.join(settings)}"
            )
        transcript = transcribe_by_ctc(loaded, samples, trace=trace)
    else:
        transcript = transcribe_by_whisper(loaded, samples, settings, trace=trace)
    return _result(loaded.name, name, transcript)


def _read(sound: Any, rate: int) -> Samples:
    """The samples of a path, or of a pair of samples and their rate."""
    if isinstance(sound, str | Path):
        return read_sound(_check_path(sound), rate)
    if isinstance(sound, tuple) and len(sound) == 2 and isinstance(sound[1], int):
        return prepare_samples(np.asarray(sound[0]), sound[1], rate)
    raise InputError(
        f"expected a sound: a path, or a pair (samples, samples in a second), got {describe(sound)}"
    )


def _check_path(sound: str | Path) -> Path:
    """The path of a file that is there; a text in its place is refused."""
    try:
        if str(sound) and Path(sound).exists():
            return Path(sound)
    except (OSError, ValueError):  # longer than a path may be, as texts are, or with a NUL
        pass
    text = str(sound)
    shown = repr(text if len(text) <= 60 else f"{text[:59]}…")
    raise FileError(f"there is no file {shown}; give the path of a WAV, FLAC, OGG or MP3 file")


def _result(model: str, name: str, transcript: Transcript) -> TaskResult:
    """The result of a transcript, whose windows are counted in milliseconds."""
    windows = tuple(
        InputWindow(round(1000 * window.start), round(1000 * window.stop), window.trace)
        for window in transcript.windows
    )
    return TaskResult(
        "transcription",
        model,
        {"sound": name},
        (Candidate(transcript.text, transcript.score),),
        windows,
        words=transcript.words,
    )
