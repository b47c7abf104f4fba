"""Transcripts by models with a CTC head (Graves et al. 2006), such as Wav2Vec2 and HuBERT.

The model writes a letter, a space or nothing for each frame of some 20 ms; equal neighbours are one
letter:

    frames   _ h h _ e _ l l _ l o _ | _ t o     _ is nothing, | the end of a word
    text     h e l l o   t o                     hello from frame 1 to 10, to from frame 14 to 15

A sound of more than a minute is heard in windows that overlap, of which the inner parts are kept:
the first and last seconds of a window lack the sound beside them.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import InputError, RegardError, first_line
from regard.loading import LoadedModel
from regard.loading.sounds import Samples
from regard.tasks.speech import Transcript, TranscriptWindow, name_frames
from regard.tracing import watch
from regard.tracing.assembly.token_labels import TokenLabels
from regard.tracing.inputs.runner import evaluation_mode
from regard.types import TimedWord, Trace

__all__ = ["transcribe_by_ctc"]

_WHOLE = 60  # seconds of a sound that are heard in one run
_INNER, _MARGIN = 30, 5  # seconds that are kept of a window of a longer sound, and heard beside it


class _Letter(NamedTuple):
    """A token that stands for some neighbouring frames, from the first to after the last."""

    number: int
    first: int
    stop: int


def transcribe_by_ctc(loaded: LoadedModel, samples: Samples, *, trace: bool) -> Transcript:
    """The transcript of a sound by the likeliest letter of each frame."""
    try:
        with evaluation_mode(loaded.model), torch.no_grad():
            runs = [_run(loaded, samples, *part, trace=trace) for part in _cut(loaded, samples)]
    except RegardError:
        raise
    except Exception as error:
        raise InputError(f"{loaded.name} cannot run on this input ({first_line(error)})") from error
    log_p = torch.cat([logits for logits, _ in runs]).float().log_softmax(-1)
    best = log_p.max(-1)
    ids = best.indices.tolist()
    score = float(best.values.mean()) if ids else 0.0
    # the token for nothing is special too, and keeps equal letters apart: it must not be skipped
    text = loaded.tokenizer.decode(ids, skip_special_tokens=False).strip()
    return Transcript(text, score, _words(loaded, ids), tuple(window for _, window in runs))


def _cut(loaded: LoadedModel, samples: Samples) -> Iterator[tuple[int, int, int, int]]:
    """The windows of a sound: first and last sample heard, first and last sample kept."""
    rate = loaded.processor.feature_extractor.sampling_rate
    count = len(samples)
    if count <= _WHOLE * rate:
        yield 0, count, 0, count
        return
    # whole frames, so that the kept parts of neighbours meet
    frame = _frame_samples(loaded)
    inner, margin = (seconds * rate // frame * frame for seconds in (_INNER, _MARGIN))
    for start in range(0, count, inner):
        stop = min(start + inner, count)
        yield max(0, start - margin), min(stop + margin, count), start, stop


def _run(
    loaded: LoadedModel, samples: Samples, first: int, last: int, start: int, stop: int,
    *, trace: bool,
) -> tuple[Tensor, TranscriptWindow]:  # fmt: skip
    """The logits of the frames that are kept of one window, and the window with its trace."""
    extractor, model = loaded.processor.feature_extractor, loaded.model
    rate, frame = extractor.sampling_rate, _frame_samples(loaded)
    inputs = extractor(samples[first:last], sampling_rate=rate, return_tensors="pt")
    arguments = {
        name: value.to(model.device, model.dtype if value.is_floating_point() else value.dtype)
        for name, value in inputs.items()
    }
    logits, own_trace = _watch(model, arguments, frame / rate, first / rate, trace=trace)
    kept = logits[(start - first) // frame :]
    if last > stop:  # sound is left after this window
        kept = kept[: (stop - start) // frame]
    return kept, TranscriptWindow(first / rate, last / rate, own_trace)


def _watch(
    model: Any, arguments: dict[str, Tensor], seconds: float, start: float, *, trace: bool
) -> tuple[Tensor, Trace | None]:
    """The logits of one run, and its trace with the frames called by their time."""
    if not trace:
        return model(**arguments).logits[0].cpu(), None
    with watch(model, atlas=0) as seen:
        logits = model(**arguments).logits[0].cpu()
        frames = name_frames(len(logits), seconds, start)
        seen.set_labels(TokenLabels(({"tokens": frames},)))
    return logits, seen[0]


def _frame_samples(loaded: LoadedModel) -> int:
    """The number of samples between two frames."""
    ratio: int = getattr(loaded.model.config, "inputs_to_logits_ratio", 320)
    return ratio


def _words(loaded: LoadedModel, ids: list[int]) -> tuple[TimedWord, ...]:
    """The words that the frames spell, with their times."""
    tokenizer = loaded.tokenizer
    rate = loaded.processor.feature_extractor.sampling_rate
    seconds = _frame_samples(loaded) / rate
    space = getattr(tokenizer, "word_delimiter_token_id", None)
    words: list[TimedWord] = []
    letters_of = _letters(ids, {*tokenizer.all_special_ids} - {space})
    for ends_word, run in groupby(letters_of, lambda letter: letter.number == space):
        letters = list(run)
        if ends_word:
            continue
        # each letter stands alone: equal ones that follow each other were separate
        text = "".join(tokenizer.convert_ids_to_tokens([each.number for each in letters]))
        words.append(TimedWord(text, letters[0].first * seconds, letters[-1].stop * seconds))
    return tuple(words)


def _letters(ids: list[int], special: set[int]) -> Iterator[_Letter]:
    """The letters of the frames: equal neighbours are one, and frames of nothing are none."""
    frame = 0
    for number, run in groupby(ids):
        length = len(list(run))
        if number not in special:
            yield _Letter(number, frame, frame + length)
        frame += length
