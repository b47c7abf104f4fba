"""What the checks look at: the numbers of every site over all traces, and what is declared."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, TypeVar, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.diagnosis.declarations import Expectation, causal_module, declares, writes_alone
from regard.errors import InputError, UnknownNameError
from regard.measures.heads import HeadNumbers, head_numbers
from regard.types import AttentionMap, Trace
from regard.types.maps import MapKind

STUDIED = 8  # texts on which the model is run again
LEAST = 4  # keys that a map has at least, for the habits of its heads to be told
V = TypeVar("V")


@dataclass(frozen=True, eq=False)
class Series:
    """One number of every head in every trace that has the site."""

    values: Float[Tensor, "example head"]
    rows: Int[Tensor, " example"]
    examples: tuple[int, ...]

    @property
    def mean(self) -> Float[Tensor, " head"]:
        """Over all traces, each weighing as many rows as it has; NaN where nothing is known."""
        known = self.values.isfinite()
        weight = self.rows[:, None] * known
        return (self.values.nan_to_num(0, 0, 0) * weight).sum(dim=0) / weight.sum(dim=0)

    def held(self, head: int, crossed: Callable[[float], bool]) -> int:
        """In how many traces the number of a head crosses a limit."""
        return sum(map(crossed, self.values[:, head].tolist()))

    def known(self, head: int) -> int:
        """In how many traces the number of a head is known."""
        return int(self.values[:, head].isfinite().sum())

    def extreme(self, head: int, side: Literal["above", "below"]) -> int:
        """The trace that shows a head best."""
        worst = -torch.inf if side == "above" else torch.inf
        column = self.values[:, head].nan_to_num(worst, worst, worst)
        return self.examples[int(column.argmax() if side == "above" else column.argmin())]


class Site:
    """What all traces show of one site."""

    def __init__(self, name: str, traces: Mapping[int, Trace]) -> None:
        self.name, self.traces = name, traces
        self._known: dict[Callable[..., Any], dict[int, Any]] = {}

    @property
    def first(self) -> AttentionMap:
        """Its map in the first trace that has it."""
        return next(iter(self.traces.values()))[self.name]

    @property
    def kind(self) -> MapKind:
        """Cross where it looks at another stream; else as it looked in the first trace."""
        return self.first.kind

    @property
    def heads(self) -> int:
        """How many heads there are."""
        return self.first.heads

    def number(self, head: int) -> int:
        """The number that a head has in the model."""
        numbers = self.first.head_indices
        return head if numbers is None else numbers[head]

    def measured(self, measure: Callable[[Trace, str], V]) -> dict[int, V]:
        """A measure of the site in each trace, taken once."""
        if measure not in self._known:
            found = {number: measure(trace, self.name) for number, trace in self.traces.items()}
            self._known[measure] = found
        return self._known[measure]

    def series(
        self,
        measure: Callable[[Trace, str], V],
        part: Callable[[V], Float[Tensor, " head"]],
        *,
        least: int = LEAST,
    ) -> Series:
        """A number of each head, in the traces whose maps have enough keys to tell."""
        found = self.measured(measure)
        long = [number for number in found if len(self.traces[number][self.name].columns) >= least]
        rows = torch.tensor([len(self.traces[number][self.name].rows) for number in long])
        values = [part(found[number]).double() for number in long]
        whole = torch.stack(values) if values else torch.zeros(0, self.heads, dtype=torch.double)
        return Series(whole, rows, tuple(long))

    def numbers(self, name: str, *, least: int = LEAST) -> Series:
        """One of the numbers of `measures.head_numbers`."""
        return self.series(head_numbers, partial(_named, name), least=least)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Traces of one model, and what else is known of it.

    `texts` are what the traces were captured of, in their order; with a model they let the studies
    run it again.
    """

    traces: tuple[Trace, ...]
    model: Any = None
    processor: Any = None
    texts: tuple[Any, ...] = ()
    expect: frozenset[Expectation] = frozenset()
    _studied: dict[Any, dict[int, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.traces:
            raise InputError("diagnose expected a trace or more, got none")
        for each in self.expect:
            if each not in get_args(Expectation):
                raise UnknownNameError("expectation", str(each), get_args(Expectation))
        if self.texts and len(self.texts) != len(self.traces):
            raise InputError(
                f"diagnose expected a text for each of {len(self.traces)} traces, got "
                f"{len(self.texts)}"
            )

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """Every site that attends in some trace, in the order in which they run."""
        names = dict.fromkeys(each.site for trace in self.traces for each in trace.maps)
        return tuple(
            Site(name, {n: trace for n, trace in enumerate(self.traces) if _has(trace, name)})
            for name in names
        )

    def site(self, name: str) -> Site:
        """The site of this name."""
        return next(each for each in self.sites if each.name == name)

    @property
    def config(self) -> Any:
        """The model's configuration, None where there is none."""
        return getattr(self.model, "config", None)

    def expects(self, expectation: Expectation) -> bool:
        """True if the caller or a module of the model declares that attention is meant to be so."""
        return expectation in self.expect or declares(self.model, expectation)

    def causal_by(self, site: Site) -> str | None:
        """What declares that a site should be causal; None where nothing does, or it crosses."""
        if site.kind == "cross":
            return None
        said = causal_module(self.model, site.name)
        streams = {each.rows.stream for trace in site.traces.values() for each in trace.of("cross")}
        writes = not streams or site.first.rows.stream in streams
        if "causal" in self.expect:
            return 'expect="causal"' if writes else None
        if said is not None:
            return f"{site.name}.is_causal" if said else None
        if getattr(self.config, "is_encoder_decoder", False):
            return "config.is_encoder_decoder" if streams and writes else None
        return writes_alone(self.model)

    def studied(self, study: Callable[[Any, Any, Any], V]) -> dict[int, V]:
        """What a study learns of each of the first texts, by their numbers; once for all checks.

        Nothing without a model and texts, and nothing of a text that the study cannot take.
        """
        if study not in self._studied:
            found = dict[int, V]()
            for number, text in enumerate(self.texts[:STUDIED] if self.model is not None else ()):
                with suppress(InputError):
                    found[number] = study(self.model, self.processor, text)
            self._studied[study] = found
        return self._studied[study]

    def crossing(self) -> Iterator[tuple[int, list[AttentionMap]]]:
        """The maps from target to source of each trace that has some, by the trace's number."""
        for number, trace in enumerate(self.traces):
            maps = [each for each in trace.of("cross") if each.rows.stream != each.columns.stream]
            streams = {(each.rows, each.columns) for each in maps}
            if len(streams) == 1:
                yield number, maps


def _named(name: str, numbers: HeadNumbers) -> Tensor:
    found: Tensor = getattr(numbers, name)
    return found


def _has(trace: Trace, site: str) -> bool:
    return any(each.site == site for each in trace.maps)
