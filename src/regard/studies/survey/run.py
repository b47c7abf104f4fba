"""`survey`: run a model over a corpus and collect the numbers of its heads."""

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
from regard.studies.survey.processes import Processes
from regard.studies.survey.state import State, StateFile, fingerprint, text_digest
from regard.studies.survey.table import Survey
from regard.tracing.head_shards import is_tensor_parallel
from regard.tracing.statistics.collect import BatchStatistics
from regard.tracing.statistics.corpus import CorpusRunner, TextGroup
from regard.tracing.statistics.texts import TokenKinds

TOKENS = 2048  # tokens of a batch, unless the caller says otherwise
PORTION = 2048  # texts that are read and sorted by length at a time
SECONDS = 5.0  # between two saved states

Text = str | tuple[str, str]
OnProgress = Callable[[int], bool | None]

_NAMES = {SPECIAL: "on_special", PUNCTUATION: "on_punctuation"}
KINDS = TokenKinds(tuple(_NAMES.get(kind, "") for kind in range(max(_NAMES) + 1)), token_kinds)


def survey(
    model: nn.Module,
    tokenizer: Any,
    texts: Iterable[Text],
    *,
    batch: int = TOKENS,
    longest: int | None = None,
    state: str | Path | None = None,
    on_progress: OnProgress = lambda done: None,
) -> Survey:
    """The numbers of each head over texts: means and standard deviations over examples.

    An encoder-decoder takes pairs (source, target) and is made to write the target. Texts of
    similar lengths run in batches of at most `batch` tokens, and are cut after `longest` tokens, or
    at the model's context length. `on_progress(done)` is called with the number of finished texts,
    and may return True to stop. With a `state`, a file, progress is saved every few seconds and on
    interruption, and the same call continues from there. Under torch.distributed each process takes
    its share of the texts, the first one writes the state, and all get the whole result.

    >>> import regard
    >>> from regard.studies.survey import survey
    >>> model = regard.from_pretrained("en-zh-transformer")
    >>> table = survey(model, model.tokenizer, [("I love you", "我爱你"), ("thank you", "谢谢")])
    >>> table.examples, len(table.rows) > 0
    (2, True)
    """
    if batch < 1 or (longest is not None and longest < 1):
        raise InputError(f"expected at least one token, got batch={batch} and longest={longest}")
    if Processes.here().size > 1 and is_tensor_parallel(model):
        raise InputError(
            "expected a model that each process can run on its own texts, got "
            f"{type(model).__name__} with heads split over processes, which needs all of them for "
            "each text; survey it whole, or sharded by FSDP2"
        )
    passes = CorpusRunner(model, tokenizer, KINDS, tokens=batch, longest=longest)
    settings = {
        "model": fingerprint(model),
        "batch": batch,
        "longest": passes.longest,
        "portion": PORTION,
    }
    state_file = StateFile(None if state is None else Path(state), settings)
    with state_file.hold_lock(Processes.here()):
        return SurveyRun(passes, state_file, on_progress).over(texts)


def takes_pairs(model: nn.Module) -> bool:
    """True if a survey of the model takes pairs (source, target) instead of single texts.

    >>> import regard
    >>> from regard.studies.survey import takes_pairs
    >>> takes_pairs(regard.from_pretrained("en-zh-rnn"))
    True
    """
    return CorpusRunner(model, None, KINDS, tokens=TOKENS, longest=None).takes_pairs


class SurveyRun:
    """A survey under way, in one of one or several processes.

    `_progress` is a pair of states: what all processes together had done when they last exchanged
    results, and what this process has done since. It is replaced as one value, so that an
    interruption finds either both states changed or none.
    """

    def __init__(
        self, passes: CorpusRunner, state_file: StateFile, on_progress: OnProgress
    ) -> None:
        self._passes, self._state_file, self._on_progress = passes, state_file, on_progress
        self._processes = Processes.here()
        self._empty = Survey(BatchStatistics(KINDS.names).measures)
        self._progress = self._progress_after_exchange(self._load_state())
        self._saved_at = time.monotonic()

    def over(self, texts: Iterable[Text]) -> Survey:
        """The survey of the texts, including those that were done before."""
        try:
            self._run_portions(texts)
        except KeyboardInterrupt:
            # alone, keep what is done; several processes are not interrupted at the same place
            if self._processes.size == 1:
                self._exchange()
            raise
        self._exchange()
        return self._progress[0].survey

    def _run_portions(self, texts: Iterable[Text]) -> None:
        """Run all portions, skipping what the loaded state has done, if the texts are the same."""
        loaded, digest, passed = self._progress[0], "", 0
        for portion in _portions(texts):
            digest = text_digest(portion, digest)
            skipped = 0
            # the portion in which the saved survey stopped: its digest covers all texts up to here
            if loaded.digest and passed == loaded.before:
                if digest != loaded.digest:
                    raise self._state_file.refusal
                skipped = loaded.groups
            if passed >= loaded.before:
                self._run_groups(portion, State(self._empty, passed, skipped, digest))
            passed += len(portion)
        if loaded.digest and passed <= loaded.before:
            raise self._state_file.refusal
        if not passed:
            raise InputError("expected at least one text to survey, got none")

    def _run_groups(self, portion: Sequence[Text], start: State) -> None:
        """Run a portion's groups from a start on; the processes take the next groups in turn."""
        groups, processes = self._passes.groups(portion), self._processes
        done = start.before + sum(map(len, groups[: start.groups]))
        for first in range(start.groups, len(groups), processes.size):
            round_groups = groups[first : first + processes.size]
            own_survey = self._progress[1].survey
            if processes.rank < len(round_groups):
                own_survey = own_survey + self._survey_group(round_groups[processes.rank])
            else:
                # a model that is sharded runs only if all processes run it, so that one without a
                # group of its own runs one that another process counts
                self._passes.run_group(round_groups[-1])
            # the groups of the other processes count as done too: they run at the same time
            own = replace(start, survey=own_survey, groups=first + len(round_groups))
            self._progress = self._progress[0], own
            done += sum(map(len, round_groups))
            self._report(done)

    def _survey_group(self, group: TextGroup) -> Survey:
        """The survey of one group of texts; refused if the model is not seen to attend at all."""
        numbers = self._passes.run_group(group)
        if not numbers.sites and not numbers.gaps:
            raise InputError(
                f"{type(self._passes.model).__name__} attends nowhere that can be seen; "
                "register_tap what attends by other means"
            )
        gaps = {gap.site: gap.reason for gap in numbers.gaps}
        return Survey(numbers.measures, numbers.sites, len(group), group.cut, gaps)

    def _report(self, done: int) -> None:
        """Call `on_progress`, and exchange results if it is time or a process wants to stop."""
        stop = self._on_progress(done) is True
        late = self._processes.first and time.monotonic() - self._saved_at > SECONDS
        stop, late = self._processes.any(stop, late)
        if stop or late:
            self._exchange()
        if stop:
            raise KeyboardInterrupt

    def _exchange(self) -> None:
        """Add up what all processes have done, and save it."""
        together, own = self._progress
        total = own.survey
        if self._processes.size > 1:
            total = together.survey
            for text in self._processes.gather(json.dumps(to_json(own.survey))):
                total = total + from_json(json.loads(text))
        self._progress = self._progress_after_exchange(replace(own, survey=total))
        if self._processes.first:
            self._state_file.save(self._progress[0])
        self._saved_at = time.monotonic()

    def _progress_after_exchange(self, together: State) -> tuple[State, State]:
        """The exchanged state, and the one that this process continues from.

        One of several processes starts from nothing. A single process goes on adding to the whole,
        group after group, so that an interruption changes no digit.
        """
        alone = self._processes.size == 1
        return together, together if alone else replace(together, survey=self._empty)

    def _load_state(self) -> State:
        """What was done before, as the first process reads it from the file."""
        saved = self._state_file.load() if self._processes.first else None
        text = json.dumps(None if saved is None else saved.to_json())
        loaded = json.loads(self._processes.gather(text)[0])
        return State(self._empty) if loaded is None else State.from_json(loaded)


def _portions(texts: Iterable[Text]) -> Iterator[list[Text]]:
    """The texts in lists of PORTION, the last one shorter."""
    stream = iter(texts)
    while portion := list(islice(stream, PORTION)):
        yield portion
