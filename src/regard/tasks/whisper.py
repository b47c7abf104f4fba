"""Transcripts by Whisper, with word times from its cross-attention (Radford et al. 2023).

The model generates by its own `generate`, so that the text is that of transformers. What it wrote
about each window of 30 seconds is then read once more in a single pass that is watched:

    decoder reads   <|startoftranscript|> <|0.00|>  she    had    your   <|2.10|>
    and predicts           <|0.00|>          she     had   your  <|2.10|>   end
    onset (frame)             -               0       14    31      52       80

Row k of the cross-attention reads token k and predicts token k + 1, which is therefore spoken from
the onset of row k to that of row k + 1. `alignment.py` finds the onsets. The heads are those that
the generation config names as following the sound (`alignment_heads`), else all of the upper half
of the layers. A frame of the encoder lasts 0.02 s.
"""

import warnings
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import InputError, RegardError, first_line
from regard.loading import LoadedModel
from regard.loading.sounds import Samples
from regard.tasks.alignment import find_token_onsets
from regard.tasks.speech import Transcript, TranscriptWindow, name_frames
from regard.tasks.spoken_words import group_words
from regard.tracing import watch
from regard.tracing.assembly.token_labels import TokenLabels
from regard.tracing.inputs.reader import InputReader
from regard.tracing.inputs.runner import evaluation_mode
from regard.types import TimedWord, Trace

__all__ = ["transcribe_by_whisper"]

_CROSS_ATTENTION = "*.decoder.layers.*.encoder_attn*"


class _Window(NamedTuple):
    """What was generated for one window: all ids with their prompt, and where the window began.

    `ended` is False if the text was cut at the largest number of tokens.
    """

    ids: Int[Tensor, " token"]
    prompt: int
    start: float
    ended: bool


def transcribe_by_whisper(
    loaded: LoadedModel, samples: Samples, settings: dict[str, Any], *, trace: bool
) -> Transcript:
    """The transcript of a sound by a Whisper of transformers."""
    try:
        with evaluation_mode(loaded.model), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of transformers, about its own defaults
            windows = _generate(loaded, samples, settings)
            passes = [_Pass(loaded, samples, window, trace=trace) for window in windows]
    except RegardError:
        raise
    except Exception as error:
        raise InputError(f"{loaded.name} cannot run on this input ({first_line(error)})") from error
    words = tuple(word for each in passes for word in each.words())
    text_ids = [number for each in passes for number in each.ids]
    tokens = sum(each.predicted for each in passes)
    score = sum(each.log_probability for each in passes) / max(1, tokens)
    return Transcript(
        loaded.tokenizer.decode(text_ids, skip_special_tokens=True).strip(),
        score,
        words,
        tuple(each.window for each in passes),
    )


def _generate(loaded: LoadedModel, samples: Samples, settings: dict[str, Any]) -> list[_Window]:
    """What the model generates for each window of a sound, with time tokens where it knows them."""
    extractor = loaded.processor.feature_extractor
    is_long = len(samples) > extractor.n_samples
    # a sound of one window is padded to its whole length, a longer one is cut by `generate`
    padding = {"truncation": False, "padding": "longest"} if is_long else {}
    inputs = extractor(
        samples, sampling_rate=extractor.sampling_rate, return_tensors="pt",
        return_attention_mask=True, **padding,
    )  # fmt: skip
    if getattr(loaded.model.generation_config, "no_timestamps_token_id", None) is not None:
        settings = {"return_timestamps": True, **settings}
    output = loaded.model.generate(
        inputs["input_features"].to(loaded.model.device, loaded.model.dtype),
        attention_mask=inputs["attention_mask"].to(loaded.model.device),
        **{**settings, "return_segments": True},
    )
    windows: list[_Window] = []
    seen: list[Any] = []
    for segment in output["segments"][0]:
        # the segments of one window share what was generated for it
        if any(segment["result"] is other for other in seen):
            continue
        seen.append(segment["result"])
        first, _ = segment["idxs"]
        start = float(segment["start"]) - _time_of(loaded, segment["tokens"])
        stop = max(
            other["idxs"][1]
            for other in output["segments"][0]
            if other["result"] is segment["result"]
        )
        ids = _sequence(segment["result"])
        windows.append(_Window(ids[:stop], first, max(0.0, start), len(ids) > stop))
    return windows


def _sequence(result: Any) -> Int[Tensor, " token"]:
    """The ids of one run of `generate`, which returns them alone or in a mapping."""
    ids: Tensor = result["sequences"] if isinstance(result, dict) else result
    return ids


def _time_of(loaded: LoadedModel, tokens: Int[Tensor, " token"]) -> float:
    """The time that the first token of a segment tells; 0 if it tells none."""
    begin = _first_time_token(loaded)
    first = int(tokens[0]) if len(tokens) else 0
    return 0.02 * (first - begin) if begin is not None and first >= begin else 0.0


def _first_time_token(loaded: LoadedModel) -> int | None:
    """The id of <|0.00|>; None for a model without time tokens."""
    last: int | None = getattr(loaded.model.generation_config, "no_timestamps_token_id", None)
    return None if last is None else last + 1


class _Pass:
    """One window of a sound, read once more with what was written about it while watched."""

    def __init__(
        self, loaded: LoadedModel, samples: Samples, window: _Window, *, trace: bool
    ) -> None:
        self._loaded, self._start, self._prompt = loaded, window.start, window.prompt
        self._ended = window.ended
        extractor, model = loaded.processor.feature_extractor, loaded.model
        first = round(window.start * extractor.sampling_rate)
        heard = samples[first : first + extractor.n_samples]
        self._seconds = len(heard) / extractor.sampling_rate
        features = extractor(heard, sampling_rate=extractor.sampling_rate, return_tensors="pt")[
            "input_features"
        ].to(model.device, model.dtype)
        ids = window.ids[None].to(model.device)
        self.ids: list[int] = window.ids[window.prompt :].tolist()
        self._frame = extractor.chunk_length / model.config.max_source_positions
        options: dict[str, Any] = {} if trace else {"sites": _CROSS_ATTENTION}
        with watch(model, atlas=0, **options) as seen:
            logits = model(input_features=features, decoder_input_ids=ids).logits[0]
            seen.set_labels(self._labels(ids[0].tolist()))
        self._trace: Trace = seen[0]
        self.window = TranscriptWindow(
            window.start, window.start + self._seconds, self._trace if trace else None
        )
        steps = logits[window.prompt - 1 : -1].float().log_softmax(-1)
        chosen = window.ids[window.prompt :].to(steps.device)
        self.predicted = len(chosen)
        self.log_probability = float(steps.gather(1, chosen[:, None]).sum())

    def _labels(self, ids: list[int]) -> TokenLabels:
        """The frames called by their time, and the tokens by their text."""
        count = self._loaded.model.config.max_source_positions
        frames = name_frames(count, self._frame, self._start)
        target = InputReader(self._loaded.processor).target_namer.name_ids(ids)
        return TokenLabels(({"source": frames, "target": target},))

    def words(self) -> list[TimedWord]:
        """The words of the window with their times in the whole sound."""
        weights = self._weights()
        if not weights.shape[1]:
            return []
        onsets = find_token_onsets(weights, self._loaded.model.config.median_filter_width)
        if not self._ended:
            onsets.append(onsets[-1])
        times = [0.0, *(self._frame * onset for onset in onsets)]
        spans = [
            (self._start + times[index], self._start + times[index + 1])
            for index in range(len(self.ids))
        ]
        # after the end of the text come all other special tokens and the times
        end = self._loaded.tokenizer.eos_token_id
        spoken = [index for index, number in enumerate(self.ids) if number < end]
        ids = [self.ids[index] for index in spoken]
        return group_words(self._loaded.tokenizer, ids, [spans[index] for index in spoken])

    def _weights(self) -> Float[Tensor, "head token frame"]:
        """The cross-attention of the heads that follow the sound, without prompt and silence."""
        cross = self._trace.of("cross")
        heads = getattr(self._loaded.model.generation_config, "alignment_heads", None)
        if not heads:
            upper = range(len(cross) // 2, len(cross))
            heads = [(layer, head) for layer in upper for head in range(cross[layer].heads)]
        layers = {layer: cross[layer].weights() for layer, _ in heads}
        stacked = torch.stack([layers[layer][head] for layer, head in heads])
        frames = max(1, min(stacked.shape[-1], int(self._seconds / self._frame)))
        # transformers leaves out the last token of a text that was cut, which it never reads
        rows = len(self.ids) - (not self._ended)
        return stacked[:, self._prompt : self._prompt + rows, :frames].float()
