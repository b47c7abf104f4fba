"""`survey`: a model taken through a corpus, and what its heads did there."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from torch import nn

from regard.errors import InputError
from regard.measures.token_kinds import PUNCTUATION, SPECIAL, token_kinds
from regard.studies.survey.files import from_json, to_json
from regard.studies.survey.processes import Ranks
from regard.studies.survey.state import Keeper, State, digested, fingerprint
from regard.studies.survey.table import Survey
from regard.tracing.statistics.collect import Tallied
from regard.tracing.statistics.corpus import Group, Passes
from regard.tracing.statistics.texts import Kinds

TOKENS = 2048  # that are run together if none says otherwise
PORTION = 2048  # texts that are read, and ordered by their lengths, at a time
SECONDS = 5.0  # between two states on disk

Text = str | tuple[str, str]
Told = Callable[[int], bool | None]

_NAMES = {SPECIAL: "on_special", PUNCTUATION: "on_punctuation"}
KINDS = Kinds(tuple(_NAMES.get(kind, "") for kind in range(max(_NAMES) + 1)), token_kinds)


def survey(
    model: nn.Module,
    tokenizer: Any,
    texts: Iterable[Text],
    *,
    batch: int = TOKENS,
    longest: int | None = None,
    state: str | Path | None = None,
    told: Told = lambda done: None,
) -> Survey:
    """What each head of a model does over texts: means and spreads over examples, streamed.

    A model that reads one text and writes another takes pairs (source, target), and is made to
    write the target. Texts are run in batches of like lengths, of `batch` tokens at most, and are
    cut after `longest` tokens, or where the model ends. `told` hears how many texts are done, and
    may answer True to stop. With a `state`, a file, what is done is saved every few seconds and
    when it is interrupted, and the same call goes on from there. Where torch.distributed is set up,
    each process takes its share, the first one writes the state, and all get the whole.

    >>> import regard
    >>> from regard.studies.survey.run import survey
    >>> model = regard.from_pretrained("en-zh-transformer")
    >>> found = survey(model, model.tokenizer, [("I love you", "我爱你"), ("thank you", "谢谢")])
    >>> found.examples, len(found.rows) > 0
    (2, True)
    """
    if batch < 1 or (longest is not None and longest < 1):
        raise InputError(f"expected at least one token, got batch={batch} and longest={longest}")
    passes = Passes(model, tokenizer, KINDS, tokens=batch, longest=longest)
    begun = {
        "model": fingerprint(model),
        "batch": batch,
        "longest": passes.longest,
        "portion": PORTION,
    }
    keeper = Keeper(None if state is None else Path(state), begun)
    return Run(passes, keeper, told).over(texts)


def takes_pairs(model: nn.Module) -> bool:
    """Whether a survey of the model takes pairs (source, target) instead of texts.

    >>> import regard
    >>> from regard.studies.survey.run import takes_pairs
    >>> takes_pairs(regard.from_pretrained("en-zh-rnn"))
    True
    """
    return Passes(model, None, KINDS, tokens=TOKENS, longest=None).takes_pairs


class Run:
    """A survey under way: what all processes had done when they last met, and this one since."""

    def __init__(self, passes: Passes, keeper: Keeper, told: Told) -> None:
        self._passes, self._keeper, self._told = passes, keeper, told
        self._ranks = Ranks.here()
        self._nothing = Survey(Tallied(KINDS.names).measures)
        # one value, so that an interruption finds either all of it changed or nothing
        self._both = self._after(self._begun())
        self._saved = time.monotonic()

    def over(self, texts: Iterable[Text]) -> Survey:
        """The survey of the texts, those included that were done before."""
        try:
            self._go(texts)
        except KeyboardInterrupt:
            if self._ranks.size == 1:
                self._meet()
            raise
        self._meet()
        return self._both[0].survey

    def _go(self, texts: Iterable[Text]) -> None:
        begun, digest, passed = self._both[0], "", 0
        for portion in _portions(texts):
            digest = digested(portion, digest)
            skipped = 0
            if begun.digest and passed == begun.before:
                if digest != begun.digest:
                    raise self._keeper.refusal
                skipped = begun.groups
            if passed >= begun.before:
                self._through(portion, State(self._nothing, passed, skipped, digest))
            passed += len(portion)
        if begun.digest and passed <= begun.before:
            raise self._keeper.refusal
        if not passed:
            raise InputError("expected at least one text to survey, got none")

    def _through(self, portion: Sequence[Text], place: State) -> None:
        """Run the portion's groups from a place on, each process one of those that come next."""
        groups, ranks = self._passes.groups(portion), self._ranks
        done = place.before + sum(map(len, groups[: place.groups]))
        for first in range(place.groups, len(groups), ranks.size):
            some = groups[first : first + ranks.size]
            own = self._both[1].survey
            if ranks.rank < len(some):
                own = own + self._seen(some[ranks.rank])
            self._both = self._both[0], replace(place, survey=own, groups=first + len(some))
            done += sum(map(len, some))
            self._pause(done)

    def _seen(self, group: Group) -> Survey:
        found = self._passes.tally(group)
        if not found.sites and not found.gaps:
            raise InputError(
                f"{type(self._passes.model).__name__} attends nowhere that can be seen; "
                "register_tap what attends by other means"
            )
        gaps = {each.site: each.reason for each in found.gaps}
        return Survey(found.measures, found.sites, len(group), group.cut, gaps)

    def _pause(self, done: int) -> None:
        """Tell how far it has come, and meet the others where it is time."""
        stop = self._told(done) is True
        late = self._ranks.first and time.monotonic() - self._saved > SECONDS
        stop, late = self._ranks.any(stop, late)
        if stop or late:
            self._meet()
        if stop:
            raise KeyboardInterrupt

    def _meet(self) -> None:
        """Put together what all have done, and save it."""
        met, own = self._both
        total = own.survey
        if self._ranks.size > 1:
            total = met.survey
            for text in self._ranks.gathered(json.dumps(to_json(own.survey))):
                total = total + from_json(json.loads(text))
        self._both = self._after(replace(own, survey=total))
        if self._ranks.first:
            self._keeper.save(self._both[0])
        self._saved = time.monotonic()

    def _after(self, met: State) -> tuple[State, State]:
        """A meeting, and what this process goes on with: nothing, or alone, with all of it.

        One process adds group after group, so that an interruption changes no digit.
        """
        return met, met if self._ranks.size == 1 else replace(met, survey=self._nothing)

    def _begun(self) -> State:
        """What was done before, as the first process finds it."""
        own = self._keeper.load() if self._ranks.first else None
        text = json.dumps(None if own is None else own.to_json())
        found = json.loads(self._ranks.gathered(text)[0])
        return State(self._nothing) if found is None else State.from_json(found)


def _portions(texts: Iterable[Text]) -> Iterator[list[Text]]:
    stream = iter(texts)
    while portion := list(islice(stream, PORTION)):
        yield portion
