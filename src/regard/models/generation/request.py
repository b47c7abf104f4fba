"""From settings and prompt to the processors, stopping criteria and strategy of a generation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from regard.errors import InputError
from regard.models.generation.beam import BeamSearch, CandidateSampling
from regard.models.generation.hypotheses import Hypotheses
from regard.models.generation.logits_processors import (
    ForbiddenPhrase,
    ForcePrefix,
    ForceTokens,
    LogitsProcessor,
    LogitsProcessors,
    MinimumLength,
    NoRepeatedNgram,
    RepetitionPenalty,
    SuppressTokens,
)
from regard.models.generation.prompts import Prompt
from regard.models.generation.result import GeneratedSequences, SequenceCollector
from regard.models.generation.sampling import Sampling, SamplingFilter
from regard.models.generation.settings import GenerationSettings
from regard.models.generation.stopping import StoppingCriteria, StopStrings, TextDecoder
from regard.models.generation.strategy import (
    DecodingRules,
    GreedySearch,
    LengthPenalty,
    Strategy,
)

_DEFAULT_NEW_TOKENS = 20  # where the settings give no maximum length, as in transformers
_SETTINGS_WITH_TOKENS = (
    "bad_words_ids",
    "suppress_tokens",
    "begin_suppress_tokens",
    "forced_bos_token_id",
    "forced_eos_token_id",
)


@dataclass(frozen=True)
class GenerationRequest:
    """The settings and the prompt of one call of `generate`, checked against each other.

    `reads_source` is True for models that encode their input and start from a start token, and
    False for those that continue it.
    """

    settings: GenerationSettings
    prompt: Prompt
    tokenizer: TextDecoder | None
    reads_source: bool

    def __post_init__(self) -> None:
        sequences, beams = self.settings.num_return_sequences, self.settings.num_beams
        if sequences > beams and (beams > 1 or not self.settings.do_sample):
            raise InputError(
                f"num_return_sequences={sequences} is more than num_beams={beams}; "
                "ask for as many beams, or for do_sample=True with one beam"
            )
        self._max_new_tokens()  # raises an InputError if there is no room

    def check_tokens(self, vocabulary: int) -> None:
        """Raise an InputError if a setting names a token that the model cannot generate."""
        for name in _SETTINGS_WITH_TOKENS:
            value = getattr(self.settings, name)
            entries = value if isinstance(value, tuple) else (value,)
            for entry in entries:
                for token in entry if isinstance(entry, tuple) else (entry,):
                    if token is not None and not 0 <= token < vocabulary:
                        raise InputError(
                            f"{name} names token {token}, but the model writes 0 to "
                            f"{vocabulary - 1}"
                        )

    def collect(self, finished: Sequence[Hypotheses]) -> GeneratedSequences:
        """The result made of the finished hypotheses."""
        settings, tokens = self.settings, self.prompt.tokens
        pad = settings.pad_token_id
        pad = (*settings.eos_token_id, 0)[0] if pad is None else pad
        collector = SequenceCollector(
            len(tokens), settings.num_return_sequences, pad, settings.num_beams
        )
        return collector(finished, tokens)

    def strategy(self) -> Strategy:
        """The decoding strategy that the settings describe."""
        settings, rules, generator = self.settings, self._rules(), self._generator()
        if settings.num_beams > 1:
            sampling = None
            if settings.do_sample:
                # Each row keeps enough tokens for one candidate besides all end tokens.
                filter_ = SamplingFilter.from_settings(settings, 1 + len(settings.eos_token_id))
                sampling = CandidateSampling(filter_, generator)
            return BeamSearch(rules, settings.num_beams, settings.early_stopping, sampling)
        if settings.do_sample:
            filter_ = SamplingFilter.from_settings(settings)
            return Sampling(rules, filter_, generator, settings.num_return_sequences)
        return GreedySearch(rules)

    def _rules(self) -> DecodingRules:
        """What holds whichever strategy is used."""
        longest = self._max_new_tokens()
        stopping = StoppingCriteria(
            self._as_tensor(self.settings.eos_token_id),
            longest,
            int(longest.min()),
            self._stop_strings(),
        )
        forced = None if self.prompt.forced is None else self.prompt.forced_count
        penalty = LengthPenalty(self.settings.length_penalty, forced)
        return DecodingRules(LogitsProcessors(tuple(self._processors(longest))), stopping, penalty)

    def _max_new_tokens(self) -> Int[Tensor, " sentence"]:
        """The largest number of new tokens of each input, forced ones included."""
        settings, lengths = self.settings, self.prompt.lengths
        forced = self.prompt.forced_count
        if settings.max_new_tokens is not None or settings.max_length is None:
            return forced + (settings.max_new_tokens or _DEFAULT_NEW_TOKENS)
        room = settings.max_length - lengths
        if (room < 1).any():
            full = int((room < 1).nonzero()[0])
            raise InputError(
                f"max_length={settings.max_length} leaves no room after the {int(lengths[full])} "
                f"tokens of prompt {full}; raise it or give max_new_tokens"
            )
        return forced + room

    def _processors(self, max_new_tokens: Int[Tensor, " sentence"]) -> Iterator[LogitsProcessor]:
        """The processors in the order of transformers, and the prefix after all of them."""
        settings = self.settings
        forces_bos = settings.forced_bos_token_id is not None and self._is_at_start_token()
        if settings.repetition_penalty != 1:
            yield RepetitionPenalty(settings.repetition_penalty)
        if settings.no_repeat_ngram_size:
            yield NoRepeatedNgram(settings.no_repeat_ngram_size)
        yield from self._forbidden_words()
        yield from self._minimum_length()
        if settings.forced_bos_token_id is not None and forces_bos:
            first_step = torch.zeros_like(max_new_tokens)
            yield ForceTokens(self._as_tensor((settings.forced_bos_token_id,)), first_step, 0)
        if settings.forced_eos_token_id:
            last_step = max_new_tokens - 1
            tokens = self._as_tensor(settings.forced_eos_token_id)
            yield ForceTokens(tokens, last_step, int(last_step.min()))
        if settings.suppress_tokens:
            yield SuppressTokens(self._as_tensor(settings.suppress_tokens))
        if settings.begin_suppress_tokens:
            # The beginning is the first token that is not forced.
            tokens = self._as_tensor(settings.begin_suppress_tokens)
            yield SuppressTokens(tokens, step=int(forces_bos))
        if self.prompt.forced is not None:
            yield ForcePrefix(self.prompt.forced)

    def _forbidden_words(self) -> Iterator[LogitsProcessor]:
        """Processors for bad_words_ids; as in transformers, an end token alone stays allowed."""
        end_tokens = {(token,) for token in self.settings.eos_token_id}
        words = [ids for ids in self.settings.bad_words_ids if ids not in end_tokens]
        single_tokens = tuple(ids[0] for ids in words if len(ids) == 1)
        if single_tokens:
            yield SuppressTokens(self._as_tensor(single_tokens))
        yield from (ForbiddenPhrase(self._as_tensor(ids)) for ids in words if len(ids) > 1)

    def _minimum_length(self) -> Iterator[LogitsProcessor]:
        """A processor for min_length and min_new_tokens, if one of them asks for any token."""
        minimum = (self.settings.min_length - self.prompt.lengths).clamp(
            min=self.settings.min_new_tokens
        )
        if self.settings.eos_token_id and (minimum > 0).any():
            min_new_tokens = minimum + self.prompt.forced_count
            eos = self._as_tensor(self.settings.eos_token_id)
            yield MinimumLength(eos, min_new_tokens, int(min_new_tokens.max()))

    def _is_at_start_token(self) -> bool:
        """True if the decoder begins with the start token alone, without a prefix."""
        return self.reads_source and self.prompt.tokens.shape[1] == 1 and self.prompt.forced is None

    def _stop_strings(self) -> StopStrings | None:
        """The stop strings of the settings with the tokenizer that they need."""
        if not self.settings.stop_strings:
            return None
        if self.tokenizer is None:
            raise InputError("stop_strings need the text; give the tokenizer, tokenizer=...")
        return StopStrings(self.settings.stop_strings, self.tokenizer)

    def _generator(self) -> torch.Generator:
        """The random generator of the settings' seed, or of a new seed without one."""
        generator = torch.Generator(self.prompt.tokens.device)
        if self.settings.seed is None:
            generator.seed()
        else:
            generator.manual_seed(self.settings.seed)
        return generator

    def _as_tensor(self, tokens: tuple[int, ...]) -> Int[Tensor, " token"]:
        """Token ids as a tensor on the prompt's device."""
        return torch.tensor(tokens, dtype=torch.long, device=self.prompt.tokens.device)
