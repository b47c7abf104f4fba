"""Diagnosis: values of healthy models, false alarms on them, and which injected faults are found.

Limits are set on some models and texts (`bench.benchmark_models.tuning_models`) and evaluated on
others (`held_out_models`). A false alarm is a warning or a bug reported of a healthy model.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import regard
from bench.benchmark_models import BenchmarkModel, held_out_models, tuning_models
from bench.fault_injection import FAULTS, FaultLocation, InjectedFault
from bench.measure import Effort, Row, Table, Target
from regard.diagnosis import CHECKS, Limit, diagnose
from regard.diagnosis.checks.translations import word_coverage, word_positions
from regard.diagnosis.limits import LIMITS
from regard.studies.leaks import causal_leak, padding_leak
from regard.types import Trace
from regard.types.finding import SEVERITIES, Finding

STRENGTHS = (0.25, 0.5, 0.75, 1.0)
TEXTS = 3  # traces with which an injected fault is diagnosed
TRACE_CHECKS = [check for check in CHECKS.values() if check.cost == "traces"]
REPORTED_CHECKS = [check for check in TRACE_CHECKS if not check.name.startswith("role")]
OF_WORDS, OF_MASKS = ("dropped", "repeated"), ("leak", "padding")
BEHAVIOUR = ("leak-behaviour", "padding-behaviour")


def alarms(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that are warnings or bugs."""
    return [finding for finding in findings if finding.severity != "observation"]


# The value that a check measures at a fault of full strength; the limit is set midway between it
# and the most extreme healthy value.
FULL_STRENGTH_VALUES = {
    "uniform": 1.0,
    "constant": 0.0,
    "collapsed": 0.0,
    "one-hot": 0.0,
    "dropped": 0.0,
}
MARGIN = 1.5  # the limit over the largest healthy value, where a fault has no bound


def extreme_values(
    names: Sequence[str], subjects: Sequence[BenchmarkModel], step: int
) -> dict[str, float]:
    """The most extreme value that checks measure in healthy models, `step` texts at a time."""
    far = float("inf")
    sides = {name: LIMITS[name].side for name in names}
    always = [
        replace(CHECKS[name], limit=Limit(-far if side == "above" else far, side, "always"))
        for name, side in sides.items()
    ]
    values: dict[str, list[float]] = {name: [] for name in names}
    for subject in subjects:
        for start in range(0, len(subject.texts) - step + 1, step):
            traces = healthy_traces(subject, range(start, start + step))
            for each in diagnose(traces, subject.model, checks=always):
                values[each.check].append(each.value)
    return {name: (max if sides[name] == "above" else min)(values[name]) for name in names}


_TRACES: dict[tuple[str, str], Trace] = {}


def healthy_traces(subject: BenchmarkModel, numbers: range) -> list[Trace]:
    """The traces of a healthy model, captured in batches of 16 and cached."""
    found = []
    for number in numbers:
        key = (subject.name, subject.texts[number])
        if key not in _TRACES:
            block = range(number - number % 16, min(number - number % 16 + 16, len(subject.texts)))
            for one, trace in zip(block, subject.traces(block), strict=True):
                _TRACES[subject.name, subject.texts[one]] = trace
        found.append(_TRACES[key])
    return found


def least_coverage(subjects: Sequence[BenchmarkModel]) -> float:
    """The smallest weight that a source word of the healthy translations received in all."""
    found = [
        float(each.sum())
        for subject in subjects
        for trace in healthy_traces(subject, range(len(subject.texts)))
        if trace.of("cross")
        for each in word_coverage(trace, list(trace.of("cross"))).values()
    ]
    return min(found)


def limit_rows(effort: Effort) -> Iterator[Row]:
    """The most extreme values of the tuning models, and the limits that follow from them."""
    subjects = list(tuning_models(16 if effort.quick else 80))
    names = ", ".join(f"{each.name} ({len(each.texts)} texts)" for each in subjects)
    alone = ["uniform", "collapsed", "one-hot", "repeated"]
    values = extreme_values(alone, subjects, 1) | extreme_values(["constant"], subjects, TEXTS)
    values["dropped"] = least_coverage(subjects)
    for name, value in values.items():
        fault = FULL_STRENGTH_VALUES.get(name)
        rule = MARGIN * value if fault is None else (value + fault) / 2
        note = f"by the rule {rule:.3f}, in use {LIMITS[name].value:g}; {names}"
        yield Row(name, "-", "most extreme healthy value", value, None, None, note)


def alarm_rows(effort: Effort) -> Iterator[Row]:
    """How often checks fire on healthy models and texts that were not used to set limits."""
    fired, alarmed, total = Counter[str](), Counter[str](), 0
    for subject in held_out_models(12 if effort.quick else 80):
        own = 0
        for number in range(len(subject.texts)):
            traces = healthy_traces(subject, range(number, number + 1))
            found = diagnose(
                traces, subject.model, processor=subject.processor, checks=TRACE_CHECKS
            )
            fired.update({each.check for each in found})
            own += bool(alarms(found))
            alarmed.update({each.check for each in alarms(found)})
        total += len(subject.texts)
        share, note = own / len(subject.texts), f"{own} of {len(subject.texts)} texts"
        yield Row(subject.name, "-", "false alarms", share, None, None, note)
    told = ", ".join(f"{name} {count}" for name, count in alarmed.items()) or "none"
    share = sum(alarmed.values()) / total
    yield Row("all", "-", "false alarms", share, None, Target(0.02), f"of {total} texts; {told}")
    for name in fired:
        if CHECKS[name].severity == "observation":
            yield Row(name, "-", "observed", fired[name] / total, None, None, f"of {total} texts")
    yield from own_translations(12 if effort.quick else 80)


def own_translations(count: int) -> Iterator[Row]:
    """Alarms on translations that models write freely: here words do go missing and loops occur."""
    for subject in held_out_models(count):
        if not subject.name.startswith("en-zh"):
            continue
        told, alarmed = Counter[str](), 0
        for text in subject.texts:
            trace = regard.capture(subject.model, subject.processor, text, atlas=0)
            found = alarms(diagnose(trace, subject.model, checks=TRACE_CHECKS))
            told.update({each.check for each in found})
            alarmed += bool(found)
        beside = ", ".join(f"{name} {number}" for name, number in told.items()) or "none"
        note = f"{alarmed} of {len(subject.texts)} texts; {beside}"
        name = f"{subject.name}, writing by itself"
        yield Row(name, "-", "alarms", alarmed / len(subject.texts), None, None, note)


@dataclass(frozen=True)
class Case:
    """A fault of some strength at a location in a model, and what was found."""

    fault: str
    strength: float
    subject: str
    location: FaultLocation
    found: tuple[Finding, ...]

    @property
    def named(self) -> bool:
        """True if the fault was found at its location."""
        return any(each.check == self.fault and self._there(each) for each in self.found)

    @property
    def worse(self) -> bool:
        """True if something more severe than the fault was reported."""
        rank = SEVERITIES.index(CHECKS[self.fault].severity)
        return any(SEVERITIES.index(each.severity) > rank for each in self.found)

    @property
    def alarms(self) -> set[str]:
        """The checks that reported a warning or a bug."""
        return {each.check for each in alarms(self.found)}

    def _there(self, finding: Finding) -> bool:
        if self.fault in OF_WORDS:
            columns = finding.view.columns if finding.view else ()
            return {*self.location.columns} <= {*columns}
        heads = {self.location.head, self.location.other} if self.fault == "redundant" else None
        if self.fault in OF_MASKS or finding.head is None:
            return finding.site == self.location.site
        wanted = heads or {self.location.head}
        return finding.site == self.location.site and finding.head in wanted


def cases(subjects: Sequence[BenchmarkModel], fault: str, quick: bool) -> Iterator[Case]:
    """The cases of one fault in all models that can have it."""
    for subject in subjects:
        chance = random.Random(f"{fault} {subject.name}")
        for block in range(1 if quick else 2):
            numbers = range(block * TEXTS, (block + 1) * TEXTS)
            if numbers.stop <= len(subject.texts):
                yield from inject(subject, fault, numbers, chance)


def inject(
    subject: BenchmarkModel, fault: str, numbers: range, chance: random.Random
) -> Iterator[Case]:
    """The cases of a fault at a random location, one for each strength."""
    location = choose_location(subject, fault, healthy_traces(subject, numbers), chance)
    if location is None:
        return
    whole = healthy_traces(subject, numbers)[0]
    sites = [each.site for each in whole.of("cross")] if fault in OF_WORDS else [location.site]
    for strength in STRENGTHS:
        edit = InjectedFault(FAULTS[fault], location, strength, sites)
        many = numbers[:1] if fault in OF_WORDS else numbers
        traces = subject.traces(many, edit=edit)
        found = diagnose(traces, subject.model, processor=subject.processor, checks=REPORTED_CHECKS)
        yield Case(fault, strength, subject.name, location, tuple(found))


def choose_location(
    subject: BenchmarkModel, fault: str, traces: Sequence[Trace], chance: random.Random
) -> FaultLocation | None:
    """A random location for a fault; None if the model has none where it can occur."""
    first, kinds = traces[0], {"leak": ("decoder",), "padding": ("encoder", "cross")}
    if fault in OF_WORDS:
        kinds[fault] = ("cross",)
    fit = [each for each in first if each.kind in kinds.get(fault, (each.kind,))]
    several = fault in ("redundant", "collapsed")
    fit = [each for each in fit if each.heads >= (3 if several else 1)]
    if fault in OF_MASKS:
        fit = [each for each in fit if each.statistics is not None]
    if not fit or (fault == "padding" and len({len(each.maps[0].columns) for each in traces}) < 2):
        return None
    each = chance.choice(fit)
    head = chance.randrange(each.heads)
    other = chance.choice([n for n in range(each.heads) if n != head]) if each.heads > 1 else head
    words = word_positions(first.tokens(each.columns)) if fault in OF_WORDS else [()]
    return FaultLocation(each.site, head, other, chance.choice(words))


def injected_rows(effort: Effort) -> Iterator[Row]:
    """How many injected faults are found, by strength, and what else is reported."""
    subjects, every = list(held_out_models(2 * TEXTS)), list[Case]()
    for fault in FAULTS:
        own = list(cases(subjects, fault, effort.quick))
        every += own
        for strength in STRENGTHS:
            yield _recall(f"{fault}, strength {strength:.0%}", own, strength)
    for strength in STRENGTHS:
        yield _recall(f"all faults, strength {strength:.0%}", every, strength)
    told = [each for case in every for each in case.alarms]
    right = sum(case.fault in case.alarms for case in every)
    names = ", ".join(each.name for each in subjects)
    note = f"{right} of {len(told)} alarms are of the injected fault; {len(every)} cases in {names}"
    yield Row("all faults", "-", "precision", right / max(1, len(told)), None, None, note)


def _recall(case: str, cases: Sequence[Case], strength: float) -> Row:
    own = [each for each in cases if each.strength == strength]
    if not own:
        return Row(case, "-", "recall", None, None, None, "no model here can have it")
    named = sum(each.named for each in own)
    others = Counter(check for each in own for check in each.alarms - {each.fault})
    beside = ", ".join(f"{check} {count}" for check, count in others.items()) or "nothing"
    note = f"{named} of {len(own)}; also told: {beside}; worse: {sum(each.worse for each in own)}"
    target = Target(0.95, at_least=True) if strength == 1 else None
    return Row(case, "-", "recall", named / len(own), None, target, note)


@contextmanager
def with_fault(model: Any, edit: InjectedFault) -> Iterator[None]:
    """Inject a fault into every forward pass of the model while the block runs."""
    own = model.forward

    @wraps(own)
    def forward(*args: Any, **settings: Any) -> Any:
        with regard.watch(model, edit=edit, keep="summary", atlas=0):
            return own(*args, **settings)

    model.forward = forward
    try:
        yield
    finally:
        del model.forward


def behaviour_rows(effort: Effort) -> Iterator[Row]:
    """Whether leaks show in a model's outputs: healthy, and with parts of the mask opened."""
    found: dict[tuple[str, float], list[float]] = {}
    for subject in held_out_models(TEXTS):
        for fault, check in zip(OF_MASKS, BEHAVIOUR, strict=True):
            location = choose_location(
                subject, fault, healthy_traces(subject, range(TEXTS)), random.Random(7)
            )
            if location is None:
                continue
            for strength in (0.0, *STRENGTHS):
                edit = InjectedFault(FAULTS[fault], location, strength, [location.site])
                with with_fault(subject.model, edit) if strength else nullcontext():
                    values = [study(subject, check, text) for text in subject.texts[:TEXTS]]
                found.setdefault((check, strength), []).extend(values)
    for (check, strength), values in sorted(found.items()):
        crossed = sum(map(LIMITS[check].crossed, values))
        note = f"{crossed} of {len(values)} texts; largest {max(values):.2g}"
        target = Target(0.95, at_least=True) if strength == 1 else None
        name = f"{check}, strength {strength:.0%}" if strength else f"{check}, healthy"
        yield Row(name, "-", "told", crossed / len(values), None, target, note)


def study(subject: BenchmarkModel, check: str, text: str) -> float:
    """How much an output changes that should not change."""
    leak = causal_leak if check == BEHAVIOUR[0] else padding_leak
    return leak(subject.model, subject.processor, text).largest


TABLES = {
    "limits": Table("Diagnosis: values of healthy models, and the limits", limit_rows, 2.0),
    "healthy": Table(
        "Diagnosis: checks that fire on held-out healthy models and texts", alarm_rows, 2.5
    ),
    "faults": Table("Diagnosis: faults injected into trained models", injected_rows, 3.0),
    "behaviour": Table("Diagnosis: leaks found in the outputs of models", behaviour_rows, 1.0),
}
