"""What each head does for an output: what changes when it alone looks at nothing, or alike."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attribution.clean_run import Subject, only, path_of, runs
from regard.attribution.erasing import repeated
from regard.attribution.objectives import Alike, Judge, Said
from regard.errors import InputError, UnknownNameError
from regard.tracing import AttentionCall, Edit
from regard.tracing.inputs.example import forward
from regard.tracing.recording.site_choice import SiteChoice, SitePatterns

To = Literal["zero", "uniform"]
Heads = Float[Tensor, " head"]

STRIP = 1 << 23  # logits that are compared at once


class Change(NamedTuple):
    """What a knock-out changes: means over texts."""

    loss: float
    divergence: float
    changed: float
    rewritten: float


@dataclass(frozen=True, eq=False)
class KnockOuts:
    """What changed without each head, by site; means over the texts.

    Where a model gives no logits, only the loss is known, one less the likeness; the rest is NaN.
    """

    judged: str
    to: To
    texts: int
    loss: float
    """The mean negative log-probability, in nats, of the reference or of the model's own output."""
    rise: Mapping[str, Heads]
    """How much the loss rises without the head; less than 0 where it falls."""
    divergence: Mapping[str, Heads]
    """The mean Kullback-Leibler divergence of each row's distribution from the model's, in nats."""
    changed: Mapping[str, Heads]
    """The share of rows whose likeliest token, or class, is another."""
    rewritten: Mapping[str, Heads]
    """The share of texts with such a row: of a model's own writing, those written differently."""


def knock_outs(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    *,
    target: Any = None,
    to: To = "zero",
    sites: SitePatterns = None,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> KnockOuts:
    """What each head does: one at a time is out of use while the model reads each of the inputs.

    As heads are ablated by Michel et al. 2019, who set what they give to zero; a
    "uniform" head still gives the mean of its values. The loss is that of the text itself for a
    causal model, of the target or else its own greedy output for an encoder-decoder, of its own
    class or masked tokens for others. `sites` chooses them by patterns. `told` hears how many of
    how many passes are done: for each text one at each site, its heads as a batch.

    >>> import torch
    >>> from regard.studies.knockout import knock_outs
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> found = knock_outs(model, None, {"src": torch.randn(1, 5, 8)})
    >>> found.judged, found.rise["self_attn"].shape
    ('likeness', torch.Size([2]))
    """
    if to not in get_args(To):
        raise UnknownNameError("knock-out", str(to), get_args(To))
    pairs = _pairs(inputs, target)
    readings = list[Reading]()
    for number, (text, one) in enumerate(pairs):
        subject = Subject.of(model, processor, text, target=one)

        def heard(done: int, of: int, before: int = number) -> None:
            told(before * of + done, len(pairs) * of)

        readings.append(_read(subject, _sites(subject, sites), to, heard))
    tables = [{site: _mean(readings, site, n) for site in readings[0].changes} for n in range(4)]
    loss = sum(each.loss for each in readings) / len(readings)
    return KnockOuts(readings[0].judged, to, len(readings), loss, *tables)


@dataclass(frozen=True)
class Reading:
    """One text: its loss, and what each head of each site changed."""

    judged: str
    loss: float
    changes: Mapping[str, list[Change]]


@dataclass(frozen=True)
class Site:
    """Where heads are knocked out, how many there are, and what they are to do."""

    path: str
    heads: int
    to: To


@dataclass(frozen=True, eq=False)
class Out:
    """An edit of one site: variant by variant, another head is out of use."""

    site: Site
    out: Bool[Tensor, "variant head"]

    def __call__(self, call: AttentionCall) -> Edit | None:
        """The call's weights, those of the heads that are out changed."""
        if call.site != self.site.path:
            return None
        if call.sizes[0] % len(self.out) or call.sizes[1] != self.site.heads:
            raise InputError(
                f"{call.site!r} attends with {call.sizes[1]} heads for {call.sizes[0]} examples, "
                f"and not with {self.site.heads} for {len(self.out)}: it cannot be told which is "
                "which; choose other sites with sites="
            )
        weights = call.weights()
        out = self.out.repeat_interleave(call.sizes[0] // len(self.out), dim=0)
        out = out[:, :, None, None].to(weights.device)
        if self.site.to == "zero":
            return Edit(weights=weights.masked_fill(out, 0))
        seen = call.seen()
        even = seen / seen.sum(dim=-1, keepdim=True).clamp_min(1)
        return Edit(weights=torch.where(out, even.to(weights), weights))


def reference(subject: Subject) -> Judge:
    """What a loss is taken of: for a causal model the text itself, else what is judged anyway."""
    judge, ids = subject.judge, None if subject.example.tokens is None else subject.tokens.ids
    if judge.name != "next token" or ids is None or len(ids) < 2:
        return judge
    assert isinstance(judge, Said)
    following = torch.tensor(ids[1:], device=judge.ids.device)
    return Said("text", tuple(range(len(ids) - 1)), following)


def _sites(subject: Subject, sites: SitePatterns) -> dict[str, int]:
    """The paths of the sites that were seen, and how many heads each has."""
    found = {path_of(each.site): each.heads for each in subject.trace.maps}
    if not found:
        raise InputError(f"{type(subject.model).__name__} was not seen to attend; it has no heads")
    choice = SiteChoice.of(sites)
    choice.check(found)
    return {site: heads for site, heads in found.items() if choice.fits(site)}


def _pairs(inputs: Any, target: Any) -> list[tuple[Any, str | None]]:
    """Each input with its target, None where there is none."""
    several = isinstance(inputs, list)
    texts = inputs if several else [inputs]
    targets = [None] * len(texts) if target is None else target if several else [target]
    if not texts or isinstance(targets, str) or len(targets) != len(texts):
        came = "one text" if isinstance(targets, str) else f"{len(targets)} targets"
        raise InputError(
            f"expected inputs, and a target for each of them or none, got {len(texts)} inputs and "
            f"{came}"
        )
    return list(zip(texts, targets, strict=True))


def _read(
    subject: Subject, sites: Mapping[str, int], to: To, told: Callable[[int, int], None]
) -> Reading:
    judge, changes, loss = reference(subject), dict[str, list[Change]](), 0.0
    for place, (site, heads) in enumerate(sites.items()):
        loss, changes[site] = _at(subject, judge, Site(site, heads, to))
        told(place + 1, len(sites))
    return Reading(judge.name, loss, changes)


def _mean(readings: Sequence[Reading], site: str, part: int) -> Heads:
    """One number of each head of a site, over all texts that it was seen in."""
    found = [[each[part] for each in one.changes[site]] for one in readings if site in one.changes]
    return torch.tensor(found, dtype=torch.float64).mean(dim=0)


def _at(subject: Subject, judge: Judge, site: Site) -> tuple[float, list[Change]]:
    """The loss, and what each head of a site changes; the model as it is runs in each batch."""
    own = [each for each in subject.trace.maps if path_of(each.site) == site.path]
    size = max(1, subject.together(own, site.heads + 1) - 1)
    changes = list[Change]()
    for some in runs(range(site.heads), size):
        out = torch.zeros(len(some) + 1, site.heads, dtype=torch.bool)
        out[range(1, len(some) + 1), list(some)] = True
        arguments = repeated(subject.example.arguments, len(out))
        edit = Out(site, out)
        output = forward(subject.model, arguments, edit=edit, sites=only(site.path))
        loss, found = _changes(judge, output)
        changes += found
    return loss, changes


def _changes(judge: Judge, output: Any) -> tuple[float, list[Change]]:
    """The loss of the first of a batch, and what the others have changed."""
    if not isinstance(judge, Said):
        assert isinstance(judge, Alike)
        first, *others = (1 - judge(output)).tolist()
        nan = float("nan")
        return first, [Change(each - first, nan, nan, nan) for each in others]
    logits = judge.logits(output)
    found = [_compared(judge, logits[:1], each[None]) for each in logits[1:]]
    return -float(judge.log_probabilities(logits[:1]).mean()), found


def _compared(judge: Said, own: Tensor, other: Tensor) -> Change:
    """What another output of the same rows changes, a strip of rows at a time."""
    parts = list[Tensor]()
    for rows in _strips(own):
        said = own[:, rows].double().log_softmax(dim=-1)
        now = other[:, rows].double().log_softmax(dim=-1)
        index = judge.ids[rows][None, :, None]
        rise = (said - now).gather(2, index)[0, :, 0]
        divergence = (said.exp() * (said - now)).nan_to_num(nan=0.0).sum(dim=-1)[0]
        changed = (said.argmax(dim=-1) != now.argmax(dim=-1))[0].double()
        parts.append(torch.stack([rise, divergence, changed]))
    rise, divergence, changed = torch.cat(parts, dim=1)
    means = [float(each.mean()) for each in (rise, divergence, changed)]
    return Change(means[0], means[1], means[2], float(changed.any()))


def _strips(logits: Float[Tensor, "1 row vocab"]) -> Iterator[slice]:
    _, rows, vocab = logits.shape
    tall = max(1, STRIP // vocab)
    for start in range(0, rows, tall):
        yield slice(start, start + tall)
