"""From the settings and the prompt to the rules, the ends and the strategy of one generation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from regard.errors import InputError
from regard.models.generation.beam import Beam, Chance
from regard.models.generation.hypotheses import Drafts
from regard.models.generation.logits_processors import (
    Forced,
    NoPhrase,
    NoRepeatedPhrase,
    NotBefore,
    Prefixed,
    RepetitionPenalty,
    Rule,
    Rules,
    Suppressed,
)
from regard.models.generation.prompts import Prompt
from regard.models.generation.result import GeneratedSequences, Harvest
from regard.models.generation.sampling import Filter, Sampling
from regard.models.generation.settings import GenerationSettings
from regard.models.generation.stopping import Decoder, Ends, StopStrings
from regard.models.generation.strategy import Course, Greedy, LengthPenalty, Strategy

_NEW_TOKENS = 20  # where nothing is said, as in transformers
_NAMING = (
    "bad_words_ids",
    "suppress_tokens",
    "begin_suppress_tokens",
    "forced_bos_token_id",
    "forced_eos_token_id",
)


@dataclass(frozen=True)
class Plan:
    """How one prompt is to be written on, settings and prompt together."""

    settings: GenerationSettings
    prompt: Prompt
    tokenizer: Decoder | None
    reads_source: bool

    def __post_init__(self) -> None:
        sequences, beams = self.settings.num_return_sequences, self.settings.num_beams
        if sequences > beams and (beams > 1 or not self.settings.do_sample):
            raise InputError(
                f"num_return_sequences={sequences} is more than num_beams={beams}; "
                "ask for as many beams, or for do_sample=True with one beam"
            )
        self._longest()

    def check(self, vocabulary: int) -> None:
        """Refuse settings that name a token which the model cannot write."""
        for name in _NAMING:
            ids = getattr(self.settings, name)
            ids = ids if isinstance(ids, tuple) else (ids,)
            flat = [each for it in ids for each in (it if isinstance(it, tuple) else (it,))]
            for token in flat:
                if token is not None and not 0 <= token < vocabulary:
                    raise InputError(
                        f"{name} names token {token}, but the model writes 0 to {vocabulary - 1}"
                    )

    def harvest(self, finished: Sequence[Drafts]) -> GeneratedSequences:
        """The result."""
        settings, tokens = self.settings, self.prompt.tokens
        pad = settings.pad_token_id
        pad = (*settings.eos_token_id, 0)[0] if pad is None else pad
        harvest = Harvest(len(tokens), settings.num_return_sequences, pad, settings.num_beams)
        return harvest(finished, tokens)

    def strategy(self) -> Strategy:
        """The way of choosing that the settings ask for."""
        settings, course = self.settings, self._course()
        source, least = self._source(), 1 + len(settings.eos_token_id)
        if settings.num_beams > 1:
            chance = Chance(Filter.of(settings, least), source) if settings.do_sample else None
            return Beam(course, settings.num_beams, settings.early_stopping, chance)
        if settings.do_sample:
            return Sampling(course, Filter.of(settings), source, settings.num_return_sequences)
        return Greedy(course)

    def _course(self) -> Course:
        longest = self._longest()
        soonest = int(longest.min())
        ends = Ends(self._ids(self.settings.eos_token_id), longest, soonest, self._strings())
        ahead = None if self.prompt.forced is None else self.prompt.ahead
        penalty = LengthPenalty(self.settings.length_penalty, ahead)
        return Course(Rules(tuple(self._rules(longest))), ends, penalty)

    def _longest(self) -> Int[Tensor, " sentence"]:
        """How many tokens each sentence may write."""
        settings, lengths, ahead = self.settings, self.prompt.lengths, self.prompt.ahead
        if settings.max_new_tokens is not None or settings.max_length is None:
            return ahead + (settings.max_new_tokens or _NEW_TOKENS)
        room = settings.max_length - lengths
        if (room < 1).any():
            full = int((room < 1).nonzero()[0])
            raise InputError(
                f"max_length={settings.max_length} leaves no room after the {int(lengths[full])} "
                f"tokens of prompt {full}; raise it or give max_new_tokens"
            )
        return ahead + room

    def _rules(self, longest: Int[Tensor, " sentence"]) -> Iterator[Rule]:
        """The rules in the order of transformers, the prefix after all of them."""
        settings = self.settings
        if settings.repetition_penalty != 1:
            yield RepetitionPenalty(settings.repetition_penalty)
        if settings.no_repeat_ngram_size:
            yield NoRepeatedPhrase(settings.no_repeat_ngram_size)
        yield from self._bad_words()
        yield from self._lengths()
        if settings.forced_bos_token_id is not None and self._starts():
            first = torch.zeros_like(longest)
            yield Forced(self._ids((settings.forced_bos_token_id,)), first, 0)
        if settings.forced_eos_token_id:
            last = longest - 1
            yield Forced(self._ids(settings.forced_eos_token_id), last, int(last.min()))
        if settings.suppress_tokens:
            yield Suppressed(self._ids(settings.suppress_tokens))
        if settings.begin_suppress_tokens:
            forced = settings.forced_bos_token_id is not None and self._starts()
            yield Suppressed(self._ids(settings.begin_suppress_tokens), at=int(forced))
        if self.prompt.forced is not None:
            yield Prefixed(self.prompt.forced)

    def _bad_words(self) -> Iterator[Rule]:
        words = [ids for ids in self.settings.bad_words_ids if ids not in self._ends()]
        alone = tuple(ids[0] for ids in words if len(ids) == 1)
        if alone:
            yield Suppressed(self._ids(alone))
        yield from (NoPhrase(self._ids(ids)) for ids in words if len(ids) > 1)

    def _lengths(self) -> Iterator[Rule]:
        least = (self.settings.min_length - self.prompt.lengths).clamp(
            min=self.settings.min_new_tokens
        )
        if self.settings.eos_token_id and (least > 0).any():
            shortest = least + self.prompt.ahead
            eos = self._ids(self.settings.eos_token_id)
            yield NotBefore(eos, shortest, int(shortest.max()))

    def _ends(self) -> set[tuple[int, ...]]:
        return {(token,) for token in self.settings.eos_token_id}

    def _starts(self) -> bool:
        """Whether nothing but the start token has been read."""
        return self.reads_source and self.prompt.tokens.shape[1] == 1 and self.prompt.forced is None

    def _strings(self) -> StopStrings | None:
        if not self.settings.stop_strings:
            return None
        if self.tokenizer is None:
            raise InputError("stop_strings need the text; give the tokenizer, tokenizer=...")
        return StopStrings(self.settings.stop_strings, self.tokenizer)

    def _source(self) -> torch.Generator:
        source = torch.Generator(self.prompt.tokens.device)
        if self.settings.seed is None:
            source.seed()
        else:
            source.manual_seed(self.settings.seed)
        return source

    def _ids(self, tokens: tuple[int, ...]) -> Int[Tensor, " token"]:
        return torch.tensor(tokens, dtype=torch.long, device=self.prompt.tokens.device)
