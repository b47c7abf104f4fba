"""`Evidence`, the input of all checks: the numbers of every site over all traces of a model.

`Evidence.sites` has a `Site` for each place that attends; `Site.numbers("on_self")` returns a
`Series`, one number for every head in every trace. Measures and studies are computed once and
shared by all checks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, TypeVar, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.diagnosis.declarations import Expectation, causal_module, declares, writes_alone
from regard.errors import InputError, UnknownNameError
from regard.measures.finite_rows import empty_other_rows
from regard.measures.heads import HeadNumbers, head_numbers
from regard.measures.row_validity import row_validity
from regard.types import AttentionMap, Trace
from regard.types.maps import MapKind

STUDIED = 8  # the most texts on which the model is run again
LEAST = 4  # the fewest keys of a map from which its heads are judged
V = TypeVar("V")


@dataclass(frozen=True, eq=False)
class Series:
    """One number for every head in every trace that has the site, by the traces in `examples`."""

    values: Float[Tensor, "example head"]
    rows: Int[Tensor, " example"]
    examples: tuple[int, ...]

    @property
    def mean(self) -> Float[Tensor, " head"]:
        """The mean over all traces, weighted by their rows; NaN for a head without any number."""
        known = self.values.isfinite()
        weight = self.rows[:, None] * known
        return (self.values.nan_to_num(0, 0, 0) * weight).sum(dim=0) / weight.sum(dim=0)

    def held(self, head: int, crossed: Callable[[float], bool]) -> int:
        """The number of traces in which a head crosses a limit."""
        return sum(map(crossed, self.values[:, head].tolist()))

    def known(self, head: int) -> int:
        """The number of traces in which the number of a head is finite."""
        return int(self.values[:, head].isfinite().sum())

    def extreme(self, head: int, side: Literal["above", "below"]) -> int:
        """The index of the trace with the most extreme number of a head."""
        worst = -torch.inf if side == "above" else torch.inf
        column = self.values[:, head].nan_to_num(worst, worst, worst)
        return self.examples[int(column.argmax() if side == "above" else column.argmin())]


class Site:
    """One site in all traces that have it, by the index of the trace.

    `recorded` are the traces as they were recorded. In `traces`, rows that are not finite are
    emptied: the check `numeric` reports them, and all others judge the rows that are numbers.
    """

    def __init__(
        self, name: str, traces: Mapping[int, Trace], recorded: Mapping[int, Trace] | None = None
    ) -> None:
        self.name, self.traces = name, traces
        self.recorded = traces if recorded is None else recorded
        self._measured: dict[Callable[..., Any], dict[int, Any]] = {}

    @property
    def first(self) -> AttentionMap:
        """The map of the site in the first trace that has it."""
        return next(iter(self.traces.values()))[self.name]

    @property
    def kind(self) -> MapKind:
        """The kind of the site's map in the first trace: encoder, decoder or cross."""
        return self.first.kind

    @property
    def heads(self) -> int:
        """The number of heads of the site."""
        return self.first.heads

    def number(self, head: int) -> int:
        """The number in the model of the head at an index of the map."""
        numbers = self.first.head_indices
        return head if numbers is None else numbers[head]

    def measured(self, measure: Callable[[Trace, str], V]) -> dict[int, V]:
        """The measure of the site in each trace; it is computed once and kept."""
        if measure not in self._measured:
            # the validity of rows is the one measure that is about rows that are no numbers
            traces = self.recorded if measure is row_validity else self.traces
            values = {number: measure(trace, self.name) for number, trace in traces.items()}
            self._measured[measure] = values
        return self._measured[measure]

    def series(
        self,
        measure: Callable[[Trace, str], V],
        part: Callable[[V], Float[Tensor, " head"]],
        *,
        least: int = LEAST,
    ) -> Series:
        """One part of a measure by head, in the traces whose maps have at least `least` keys."""
        measured = self.measured(measure)
        long = [
            number for number in measured if len(self.traces[number][self.name].columns) >= least
        ]
        rows = torch.tensor([len(self.traces[number][self.name].rows) for number in long])
        values = [part(measured[number]).double() for number in long]
        whole = torch.stack(values) if values else torch.zeros(0, self.heads, dtype=torch.double)
        return Series(whole, rows, tuple(long))

    def numbers(self, name: str, *, least: int = LEAST) -> Series:
        """The series of one number of `measures.head_numbers`, such as "on_self"."""
        return self.series(head_numbers, partial(_field, name), least=least)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The traces of one model, with the model, its processor and the texts if they are known.

    `texts` has the text of each trace, in the same order; with a model, studies can run it again on
    them.
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
        for expectation in self.expect:
            if expectation not in get_args(Expectation):
                raise UnknownNameError("expectation", str(expectation), get_args(Expectation))
        if self.texts and len(self.texts) != len(self.traces):
            raise InputError(
                f"diagnose expected a text for each of {len(self.traces)} traces, got "
                f"{len(self.texts)}"
            )

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """Every site that attends in some trace, in the order in which they run."""
        names = dict.fromkeys(seen.site for trace in self.traces for seen in trace.maps)
        return tuple(
            Site(name, _with_site(self.finite_traces, name), _with_site(self.traces, name))
            for name in names
        )

    @cached_property
    def finite_traces(self) -> tuple[Trace, ...]:
        """The traces with rows that are not finite emptied."""
        return tuple(map(empty_other_rows, self.traces))

    def site(self, name: str) -> Site:
        """The site of this name."""
        return next(site for site in self.sites if site.name == name)

    @property
    def config(self) -> Any:
        """The model's configuration, None if it has none."""
        return getattr(self.model, "config", None)

    def expects(self, expectation: Expectation) -> bool:
        """True if the caller or a module of the model declares that attention is meant to be so."""
        return expectation in self.expect or declares(self.model, expectation)

    def causal_by(self, site: Site) -> str | None:
        """The declaration that a site should be causal, such as "config.kind"; None without one.

        Cross-attention is never causal, and of an encoder-decoder only the decoder is.
        """
        if site.kind == "cross":
            return None
        declared = causal_module(self.model, site.name)
        streams = {
            cross.rows.stream for trace in site.traces.values() for cross in trace.of("cross")
        }
        writes = not streams or site.first.rows.stream in streams
        if "causal" in self.expect:
            return 'expect="causal"' if writes else None
        if declared is not None:
            return f"{site.name}.is_causal" if declared else None
        if getattr(self.config, "is_encoder_decoder", False):
            return "config.is_encoder_decoder" if streams and writes else None
        return writes_alone(self.model)

    def studied(self, study: Callable[[Any, Any, Any], V]) -> dict[int, V]:
        """The results of a study for the first texts, by index; computed once for all checks.

        Empty without a model and texts; texts that the study refuses are left out.
        """
        if study not in self._studied:
            results = dict[int, V]()
            for number, text in enumerate(self.texts[:STUDIED] if self.model is not None else ()):
                with suppress(InputError):
                    results[number] = study(self.model, self.processor, text)
            self._studied[study] = results
        return self._studied[study]

    def crossing(self) -> Iterator[tuple[int, list[AttentionMap]]]:
        """The index and the cross maps of each trace that attends from one target to one source."""
        for number, trace in enumerate(self.finite_traces):
            maps = [
                cross for cross in trace.of("cross") if cross.rows.stream != cross.columns.stream
            ]
            streams = {(cross.rows, cross.columns) for cross in maps}
            if len(streams) == 1:
                yield number, maps


def _field(name: str, numbers: HeadNumbers) -> Tensor:
    values: Tensor = getattr(numbers, name)
    return values


def _with_site(traces: Sequence[Trace], site: str) -> dict[int, Trace]:
    """The traces that have a site, by their index."""
    return {
        number: trace
        for number, trace in enumerate(traces)
        if any(attention_map.site == site for attention_map in trace.maps)
    }
