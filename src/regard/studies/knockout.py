"""Head knock-outs: what changes in a model's output when one head at a time is disabled.

The heads of one site are knocked out in a batch, or in several where one is too large. The first
example of a batch runs unchanged, and in each further example another head is disabled. With 4
heads the model reads the same text 5 times in one pass, and the logits of examples 1 to 4 are
compared with those of example 0.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attribution.clean_run import CleanRun, chunks, literal_pattern, module_path
from regard.attribution.erasure import repeat_arguments
from regard.attribution.objectives import NamedObjective, OutputSimilarity, TokenProbability
from regard.errors import InputError, UnknownNameError
from regard.tracing import AttentionCall, Edit
from regard.tracing.inputs.example import run_forward
from regard.tracing.recording.site_choice import SiteChoice, SitePatterns
from regard.types.tables import data_frame

Replacement = Literal["zero", "uniform"]
Heads = Float[Tensor, " head"]

LOGITS_AT_ONCE = 1 << 23  # logits that are compared in one piece


class Change(NamedTuple):
    """What a knock-out changes in one text; `KnockOuts` explains the numbers."""

    loss: float
    divergence: float
    changed: float
    rewritten: float


@dataclass(frozen=True, eq=False)
class KnockOuts:
    """What changed without each head, by site; means over the texts.

    Where a model gives no logits, only the loss is known, one minus the similarity; the rest is
    NaN. `objective` names the output, and `to` says what the knocked-out head gave.
    """

    objective: str
    to: Replacement
    texts: int
    loss: float
    """The mean negative log-probability, in nats, of the reference or of the model's own output."""
    rise: Mapping[str, Heads]
    """How much the loss rises without the head; negative where it falls."""
    divergence: Mapping[str, Heads]
    """The mean Kullback-Leibler divergence of each row's distribution from the model's, in nats."""
    changed: Mapping[str, Heads]
    """The share of rows whose most likely token, or class, is another."""
    rewritten: Mapping[str, Heads]
    """The share of texts with such a row: of generated text, those that come out differently."""

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with one row per head: site, head, and what changed without it."""
        heads = [(site, head) for site, rise in self.rise.items() for head in range(len(rise))]
        columns: dict[str, list[Any]] = {
            "site": [site for site, _ in heads],
            "head": [head for _, head in heads],
        }
        for name in ("rise", "divergence", "changed", "rewritten"):
            table: Mapping[str, Heads] = getattr(self, name)
            columns[name] = [float(table[site][head]) for site, head in heads]
        return data_frame(columns)

    def __repr__(self) -> str:
        heads = [
            (float(value), site, head)
            for site, rise in self.rise.items()
            for head, value in enumerate(rise)
        ]
        most, site, head = max(heads)
        return (
            f"<KnockOuts of {len(heads)} heads at {len(self.rise)} sites over {self.texts} texts: "
            f"loss of {self.objective} {self.loss:.4g}, rises most without head {head} of {site} "
            f"({most:+.4g})>"
        )


def knock_outs(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    *,
    target: Any = None,
    to: Replacement = "zero",
    sites: SitePatterns = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> KnockOuts:
    """What each head contributes: one at a time is disabled while the model reads each input.

    Michel et al. 2019 set the output of a head to zero; a "uniform" head attends evenly and still
    gives the mean of its values. The loss is that of the text itself for a causal model, of the
    target or else its own greedy output for an encoder-decoder, and of its own class or masked
    tokens for others. `sites` chooses sites by patterns. `on_progress(done, total)` is called after
    each pass: for each text there is one at each site, with its heads as a batch.

    >>> import torch
    >>> from regard.studies import knock_outs
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> result = knock_outs(model, None, {"src": torch.randn(1, 5, 8)})
    >>> result.objective, result.rise["self_attn"].shape
    ('similarity', torch.Size([2]))
    """
    if to not in get_args(Replacement):
        raise UnknownNameError("knock-out", str(to), get_args(Replacement))
    pairs = _pair_with_targets(inputs, target)
    texts = list[TextChanges]()
    for number, (one_input, one_target) in enumerate(pairs):
        run = CleanRun.of(model, processor, one_input, target=one_target)

        def report(done: int, total: int, number: int = number) -> None:
            on_progress(number * total + done, len(pairs) * total)

        texts.append(_knock_out_each(run, _heads_by_site(run, sites), to, report))
    tables = [
        {site: _mean_over_texts(texts, site, part) for site in texts[0].changes}
        for part in range(len(Change._fields))
    ]
    loss = sum(text.loss for text in texts) / len(texts)
    return KnockOuts(texts[0].objective, to, len(texts), loss, *tables)


@dataclass(frozen=True)
class TextChanges:
    """The loss of one text, and what changes in it without each head, by site."""

    objective: str
    loss: float
    changes: Mapping[str, list[Change]]


@dataclass(frozen=True)
class KnockOutSite:
    """The path of a module whose heads are knocked out, how many there are, and what they give."""

    path: str
    heads: int
    to: Replacement


@dataclass(frozen=True, eq=False)
class KnockOutEdit:
    """An edit of one site: in each variant of the batch other heads are disabled."""

    site: KnockOutSite
    disabled: Bool[Tensor, "variant head"]
    """True for the heads that are disabled in a variant; none in the first."""

    def __call__(self, call: AttentionCall) -> Edit | None:
        """The call's weights, with those of the disabled heads replaced."""
        if call.site != self.site.path:
            return None
        if call.sizes[0] % len(self.disabled) or call.sizes[1] != self.site.heads:
            raise InputError(
                f"{call.site!r} attends with {call.sizes[1]} heads for {call.sizes[0]} examples, "
                f"and not with {self.site.heads} for {len(self.disabled)}: it cannot be told which "
                "is which; choose other sites with sites="
            )
        weights = call.weights()
        # a site may run several rows per example, one after another in the batch
        disabled = self.disabled.repeat_interleave(call.sizes[0] // len(self.disabled), dim=0)
        disabled = disabled[:, :, None, None].to(weights.device)
        if self.site.to == "zero":
            return Edit(weights=weights.masked_fill(disabled, 0))
        visible = call.seen()
        even = visible / visible.sum(dim=-1, keepdim=True).clamp_min(1)
        return Edit(weights=torch.where(disabled, even.to(weights), weights))


def loss_objective(run: CleanRun) -> NamedObjective:
    """What the loss is taken of: the text itself for a causal model, else the run's objective."""
    objective = run.objective
    ids = None if run.example.tokens is None else run.tokens.ids
    if objective.name != "next token" or ids is None or len(ids) < 2:
        return objective
    assert isinstance(objective, TokenProbability)
    following = torch.tensor(ids[1:], device=objective.ids.device)
    return TokenProbability("text", tuple(range(len(ids) - 1)), following)


def _heads_by_site(run: CleanRun, patterns: SitePatterns) -> dict[str, int]:
    """The chosen module paths that attend in the run, and how many heads each has."""
    heads = {
        module_path(attention_map.site): attention_map.heads for attention_map in run.trace.maps
    }
    if not heads:
        raise InputError(f"{type(run.model).__name__} was not seen to attend; it has no heads")
    choice = SiteChoice.of(patterns)
    choice.check(heads)
    return {site: count for site, count in heads.items() if choice.includes(site)}


def _pair_with_targets(inputs: Any, target: Any) -> list[tuple[Any, str | None]]:
    """Each input with its target, None where there is none."""
    is_list = isinstance(inputs, list)
    texts = inputs if is_list else [inputs]
    targets = [None] * len(texts) if target is None else target if is_list else [target]
    if not texts or isinstance(targets, str) or len(targets) != len(texts):
        came = "one text" if isinstance(targets, str) else f"{len(targets)} targets"
        raise InputError(
            f"expected inputs, and a target for each of them or none, got {len(texts)} inputs and "
            f"{came}"
        )
    return list(zip(texts, targets, strict=True))


def _knock_out_each(
    run: CleanRun,
    heads: Mapping[str, int],
    to: Replacement,
    on_progress: Callable[[int, int], None],
) -> TextChanges:
    """Knock out each head of each site in turn, for one text."""
    objective, changes, loss = loss_objective(run), dict[str, list[Change]](), 0.0
    for number, (site, count) in enumerate(heads.items()):
        loss, changes[site] = _changes_at(run, objective, KnockOutSite(site, count, to))
        on_progress(number + 1, len(heads))
    return TextChanges(objective.name, loss, changes)


def _mean_over_texts(texts: Sequence[TextChanges], site: str, part: int) -> Heads:
    """The mean of one field of `Change` for each head, over texts in which the site attended."""
    values = [[head[part] for head in text.changes[site]] for text in texts if site in text.changes]
    return torch.tensor(values, dtype=torch.float64).mean(dim=0)


def _changes_at(
    run: CleanRun, objective: NamedObjective, site: KnockOutSite
) -> tuple[float, list[Change]]:
    """The loss of the unchanged model, and what each head of a site changes.

    The unchanged model runs as the first example of each batch: batches of other sizes can differ
    in the last digits, which would show as changes.
    """
    maps = [
        attention_map
        for attention_map in run.trace.maps
        if module_path(attention_map.site) == site.path
    ]
    size = max(1, run.batch_size(maps, site.heads + 1) - 1)
    changes = list[Change]()
    for heads in chunks(range(site.heads), size):
        disabled = torch.zeros(len(heads) + 1, site.heads, dtype=torch.bool)
        disabled[range(1, len(heads) + 1), list(heads)] = True
        arguments = repeat_arguments(run.example.arguments, len(disabled))
        edit, pattern = KnockOutEdit(site, disabled), literal_pattern(site.path)
        output = run_forward(run.model, arguments, edit=edit, sites=pattern)
        loss, batch_changes = _compare_with_first(objective, output)
        changes += batch_changes
    return loss, changes


def _compare_with_first(objective: NamedObjective, output: Any) -> tuple[float, list[Change]]:
    """The loss of the first example of a batch, and what is changed in the others."""
    if not isinstance(objective, TokenProbability):
        assert isinstance(objective, OutputSimilarity)
        first, *others = (1 - objective(output)).tolist()
        nan = float("nan")
        return first, [Change(loss - first, nan, nan, nan) for loss in others]
    logits = objective.logits(output)
    changes = [_compare_logits(objective, logits[:1], other[None]) for other in logits[1:]]
    return -float(objective.log_probabilities(logits[:1]).mean()), changes


def _compare_logits(objective: TokenProbability, clean: Tensor, other: Tensor) -> Change:
    """What other logits of the same rows change, a strip of rows at a time."""
    parts = list[Tensor]()
    for rows in _row_strips(clean):
        before = clean[:, rows].double().log_softmax(dim=-1)
        after = other[:, rows].double().log_softmax(dim=-1)
        index = objective.ids[rows][None, :, None]
        rise = (before - after).gather(2, index)[0, :, 0]
        # a token of probability 0 gives 0 * -inf = NaN here, and adds nothing to the divergence
        divergence = (before.exp() * (before - after)).nan_to_num(nan=0.0).sum(dim=-1)[0]
        changed = (before.argmax(dim=-1) != after.argmax(dim=-1))[0].double()
        parts.append(torch.stack([rise, divergence, changed]))
    rise, divergence, changed = torch.cat(parts, dim=1)
    return Change(
        float(rise.mean()), float(divergence.mean()), float(changed.mean()), float(changed.any())
    )


def _row_strips(logits: Float[Tensor, "1 row vocab"]) -> Iterator[slice]:
    """Slices of rows of at most LOGITS_AT_ONCE logits, or of a single row that has more."""
    _, rows, vocab = logits.shape
    height = max(1, LOGITS_AT_ONCE // vocab)
    for start in range(0, rows, height):
        yield slice(start, start + height)
