"""Diagnosis: what healthy models reach, what fires on them, and which planted faults are named.

Limits are set on some models and texts (`bench.patients.set_on`) and scored on others
(`scored_on`). A false alarm is a warning or a bug told of a healthy model and text.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import regard
from bench.measure import Effort, Row, Table, Target
from bench.patients import Patient, scored_on, set_on
from bench.planting import MAKERS, Place, Planted
from regard.diagnosis import CHECKS, Limit, diagnose
from regard.diagnosis.checks.translations import covered, words_of
from regard.diagnosis.limits import LIMITS
from regard.studies.leaks import causal_leak, padding_leak
from regard.types import Trace
from regard.types.finding import SEVERITIES, Finding

STRENGTHS = (0.25, 0.5, 0.75, 1.0)
TEXTS = 3  # that a planted case is diagnosed by
SEEN = [check for check in CHECKS.values() if check.cost == "traces"]
TOLD = [check for check in SEEN if not check.name.startswith("role")]
OF_WORDS, OF_MASKS = ("dropped", "repeated"), ("leak", "padding")
BEHAVIOUR = ("leak-behaviour", "padding-behaviour")


def alarms(findings: Sequence[Finding]) -> list[Finding]:
    """Those that are more than observations."""
    return [each for each in findings if each.severity != "observation"]


# what a fault of full strength reaches; the limit lies midway between it and the most extreme
# healthy value
FAULTS = {"uniform": 1.0, "constant": 0.0, "collapsed": 0.0, "one-hot": 0.0, "dropped": 0.0}
AMPLE = 1.5  # times the largest healthy value, where a fault has no bound


def reached(names: Sequence[str], patients: Sequence[Patient], step: int) -> dict[str, float]:
    """The most extreme value that checks find in healthy models, some texts at a time."""
    far = float("inf")
    sides = {name: LIMITS[name].side for name in names}
    always = [
        replace(CHECKS[name], limit=Limit(-far if side == "above" else far, side, "always"))
        for name, side in sides.items()
    ]
    values: dict[str, list[float]] = {name: [] for name in names}
    for patient in patients:
        for start in range(0, len(patient.texts) - step + 1, step):
            traces = healthy(patient, range(start, start + step))
            for each in diagnose(traces, patient.model, checks=always):
                values[each.check].append(each.value)
    return {name: (max if sides[name] == "above" else min)(values[name]) for name in names}


_KNOWN: dict[tuple[str, str], Trace] = {}


def healthy(patient: Patient, numbers: range) -> list[Trace]:
    """The traces of a healthy model; made in batches, and once."""
    found = []
    for number in numbers:
        key = (patient.name, patient.texts[number])
        if key not in _KNOWN:
            block = range(number - number % 16, min(number - number % 16 + 16, len(patient.texts)))
            for one, trace in zip(block, patient.traces(block), strict=True):
                _KNOWN[patient.name, patient.texts[one]] = trace
        found.append(_KNOWN[key])
    return found


def least_covered(patients: Sequence[Patient]) -> float:
    """The least that any source word of the healthy translations received."""
    found = [
        float(each.sum())
        for patient in patients
        for trace in healthy(patient, range(len(patient.texts)))
        if trace.of("cross")
        for each in covered(trace, list(trace.of("cross"))).values()
    ]
    return min(found)


def limit_rows(effort: Effort) -> Iterator[Row]:
    """What healthy models of the set reach, and the limits that follow."""
    patients = list(set_on(16 if effort.quick else 80))
    names = ", ".join(f"{each.name} ({len(each.texts)} texts)" for each in patients)
    alone = ["uniform", "collapsed", "one-hot", "repeated"]
    values = reached(alone, patients, 1) | reached(["constant"], patients, TEXTS)
    values["dropped"] = least_covered(patients)
    for name, value in values.items():
        fault = FAULTS.get(name)
        rule = AMPLE * value if fault is None else (value + fault) / 2
        note = f"by the rule {rule:.3f}, in use {LIMITS[name].value:g}; {names}"
        yield Row(name, "-", "most extreme healthy value", value, None, None, note)


def alarm_rows(effort: Effort) -> Iterator[Row]:
    """How often checks fire on healthy models and texts that no limit was set on."""
    fired, alarmed, total = Counter[str](), Counter[str](), 0
    for patient in scored_on(12 if effort.quick else 80):
        own = 0
        for number in range(len(patient.texts)):
            traces = healthy(patient, range(number, number + 1))
            found = diagnose(traces, patient.model, processor=patient.processor, checks=SEEN)
            fired.update({each.check for each in found})
            own += bool(alarms(found))
            alarmed.update({each.check for each in alarms(found)})
        total += len(patient.texts)
        share, note = own / len(patient.texts), f"{own} of {len(patient.texts)} texts"
        yield Row(patient.name, "-", "false alarms", share, None, None, note)
    told = ", ".join(f"{name} {count}" for name, count in alarmed.items()) or "none"
    share = sum(alarmed.values()) / total
    yield Row("all", "-", "false alarms", share, None, Target(0.02), f"of {total} texts; {told}")
    for name in fired:
        if CHECKS[name].severity == "observation":
            yield Row(name, "-", "observed", fired[name] / total, None, None, f"of {total} texts")
    yield from own_translations(12 if effort.quick else 80)


def own_translations(count: int) -> Iterator[Row]:
    """What is told where models write by themselves: words do go missing, and loops do occur."""
    for patient in scored_on(count):
        if not patient.name.startswith("en-zh"):
            continue
        told, alarmed = Counter[str](), 0
        for text in patient.texts:
            trace = regard.capture(patient.model, patient.processor, text, atlas=0)
            found = alarms(diagnose(trace, patient.model, checks=SEEN))
            told.update({each.check for each in found})
            alarmed += bool(found)
        beside = ", ".join(f"{name} {number}" for name, number in told.items()) or "none"
        note = f"{alarmed} of {len(patient.texts)} texts; {beside}"
        name = f"{patient.name}, writing by itself"
        yield Row(name, "-", "alarms", alarmed / len(patient.texts), None, None, note)


@dataclass(frozen=True)
class Case:
    """A fault of some strength at a place of a model, and what was told of it."""

    fault: str
    strength: float
    patient: str
    place: Place
    found: tuple[Finding, ...]

    @property
    def named(self) -> bool:
        """Whether the fault was told, where it is."""
        return any(each.check == self.fault and self._there(each) for each in self.found)

    @property
    def worse(self) -> bool:
        """Whether something more severe than the fault was told."""
        rank = SEVERITIES.index(CHECKS[self.fault].severity)
        return any(SEVERITIES.index(each.severity) > rank for each in self.found)

    @property
    def alarms(self) -> set[str]:
        """The checks that told more than an observation."""
        return {each.check for each in alarms(self.found)}

    def _there(self, finding: Finding) -> bool:
        if self.fault in OF_WORDS:
            columns = finding.view.columns if finding.view else ()
            return {*self.place.columns} <= {*columns}
        heads = {self.place.head, self.place.other} if self.fault == "redundant" else None
        if self.fault in OF_MASKS or finding.head is None:
            return finding.site == self.place.site
        wanted = heads or {self.place.head}
        return finding.site == self.place.site and finding.head in wanted


def cases(patients: Sequence[Patient], fault: str, quick: bool) -> Iterator[Case]:
    """A fault in all models that can have it."""
    for patient in patients:
        places = random.Random(f"{fault} {patient.name}")
        for block in range(1 if quick else 2):
            numbers = range(block * TEXTS, (block + 1) * TEXTS)
            if numbers.stop <= len(patient.texts):
                yield from planted(patient, fault, numbers, places)


def planted(patient: Patient, fault: str, numbers: range, places: random.Random) -> Iterator[Case]:
    """A fault at a place drawn at random, at each strength."""
    place = chosen(patient, fault, healthy(patient, numbers), places)
    if place is None:
        return
    whole = healthy(patient, numbers)[0]
    sites = [each.site for each in whole.of("cross")] if fault in OF_WORDS else [place.site]
    for strength in STRENGTHS:
        edit = Planted(MAKERS[fault], place, strength, sites)
        many = numbers[:1] if fault in OF_WORDS else numbers
        traces = patient.traces(many, edit=edit)
        found = diagnose(traces, patient.model, processor=patient.processor, checks=TOLD)
        yield Case(fault, strength, patient.name, place, tuple(found))


def chosen(
    patient: Patient, fault: str, traces: Sequence[Trace], places: random.Random
) -> Place | None:
    """Where a fault can be: None where the model has no such place."""
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
    each = places.choice(fit)
    head = places.randrange(each.heads)
    other = places.choice([n for n in range(each.heads) if n != head]) if each.heads > 1 else head
    words = words_of(first.tokens(each.columns)) if fault in OF_WORDS else [()]
    return Place(each.site, head, other, places.choice(words))


def planted_rows(effort: Effort) -> Iterator[Row]:
    """How many planted faults are named, by strength, and what else is told."""
    patients, every = list(scored_on(2 * TEXTS)), list[Case]()
    for fault in MAKERS:
        own = list(cases(patients, fault, effort.quick))
        every += own
        for strength in STRENGTHS:
            yield _recall(f"{fault}, strength {strength:.0%}", own, strength)
    for strength in STRENGTHS:
        yield _recall(f"all faults, strength {strength:.0%}", every, strength)
    told = [each for case in every for each in case.alarms]
    right = sum(case.fault in case.alarms for case in every)
    names = ", ".join(each.name for each in patients)
    note = f"{right} of {len(told)} alarms are of the planted fault; {len(every)} cases in {names}"
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
def spoilt(model: Any, edit: Planted) -> Iterator[None]:
    """The model with a fault in every run of it while the block runs."""
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
    """Whether leaks show in what models say: of healthy ones, and with masks opened."""
    found: dict[tuple[str, float], list[float]] = {}
    for patient in scored_on(TEXTS):
        for fault, check in zip(OF_MASKS, BEHAVIOUR, strict=True):
            place = chosen(patient, fault, healthy(patient, range(TEXTS)), random.Random(7))
            if place is None:
                continue
            for strength in (0.0, *STRENGTHS):
                edit = Planted(MAKERS[fault], place, strength, [place.site])
                with spoilt(patient.model, edit) if strength else nullcontext():
                    values = [study(patient, check, text) for text in patient.texts[:TEXTS]]
                found.setdefault((check, strength), []).extend(values)
    for (check, strength), values in sorted(found.items()):
        crossed = sum(map(LIMITS[check].crossed, values))
        note = f"{crossed} of {len(values)} texts; largest {max(values):.2g}"
        target = Target(0.95, at_least=True) if strength == 1 else None
        name = f"{check}, strength {strength:.0%}" if strength else f"{check}, healthy"
        yield Row(name, "-", "told", crossed / len(values), None, target, note)


def study(patient: Patient, check: str, text: str) -> float:
    """How far an output changes that should stay."""
    leak = causal_leak if check == BEHAVIOUR[0] else padding_leak
    return leak(patient.model, patient.processor, text).largest


TABLES = {
    "limits": Table("Diagnosis: what healthy models reach, and the limits", limit_rows, 2.0),
    "healthy": Table("Diagnosis: what fires on other healthy models and texts", alarm_rows, 2.5),
    "planted": Table("Diagnosis: faults planted in trained models", planted_rows, 3.0),
    "behaviour": Table("Diagnosis: leaks told by what models say", behaviour_rows, 1.0),
}
