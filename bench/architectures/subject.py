"""The runs of one class: forward, eager weights, padding, greedy and beam search."""

import copy
import re
from collections.abc import Callable
from contextlib import suppress
from inspect import signature
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

import regard
from bench.architectures.build import Built, NotBuiltError, build
from bench.architectures.compare import (
    VERDICTS,
    Comparison,
    compare,
    describe_error,
    describe_traces,
)
from bench.architectures.inputs import BATCH
from bench.architectures.matching import (
    TOLERANCE,
    MapIndex,
    cut_hidden_keys,
    cut_numbers,
    is_sampled,
    maps_of_call,
)
from bench.architectures.recorder import RecordedCall, Recorder
from bench.architectures.tensors import difference
from regard.types import AttentionMap, Trace

__all__ = ["survey_class"]

_PADDED = 4  # tokens of the second example that are padding
_NEW_TOKENS = 4


def survey_class(model_type: str, class_name: str) -> dict[str, Any]:
    """The row of a class: its runs with their verdicts, and the worst verdict of all."""
    row: dict[str, Any] = {"type": model_type, "class": class_name}
    try:
        built = build(model_type, class_name)
    except NotBuiltError as error:
        return {**row, "verdict": "not built", "reason": str(error)[-1500:]}
    shapes = {name: list(getattr(value, "shape", ())) for name, value in built.inputs.items()}
    row |= {"level": built.level, "inputs": shapes}
    runs = {"forward": _compare_forward(built)}
    runs |= _padded_runs(built)
    runs |= _generations(built)
    runs |= _eager_run(model_type, class_name)
    row["runs"] = {name: {**vars(run), "verdict": run.verdict} for name, run in runs.items()}
    row["verdict"] = min((run.verdict for run in runs.values()), key=VERDICTS.index)
    return row


def _forward(built: Built, **changes: Any) -> Callable[[], Any]:
    """A run of the model, the same each time."""

    def run() -> Any:
        torch.manual_seed(1)
        return built.model(**copy.deepcopy({**built.inputs, **changes}))

    return run


def _compare_forward(built: Built) -> Comparison:
    """A forward pass, also with single positions changed."""
    perturb = _forward(built, **_without_cache(built.model))
    return compare(built.model, _forward(built), _count_examples(built), perturb=perturb)


def _count_examples(built: Built) -> int:
    """The examples of a call; of a list of packed patches, the pictures that it has a grid for.

    One if it is a sequence without a batch, and nothing tells its pictures apart.
    """
    about_sizes = re.compile(r".*(grid|sizes|shapes|lens|lengths).*")
    sizes = {len(x) for n, x in built.inputs.items() if x.dim() and not about_sizes.fullmatch(n)}
    grids = (x for x in built.inputs.values() if x.dim() == 2 and not x.is_floating_point())
    return BATCH if BATCH in sizes or any(int(x.prod(1).sum()) in sizes for x in grids) else 1


def _without_cache(model: nn.Module) -> dict[str, bool]:
    """The argument that switches a cache off, if the model has it."""
    return {"use_cache": False} if "use_cache" in signature(model.forward).parameters else {}


def _padded_runs(built: Built) -> dict[str, Comparison]:
    """Runs of texts of two lengths, with padding on the left and on the right."""
    mask = built.inputs.get("attention_mask")
    ids = built.inputs.get("input_ids")
    if mask is None or ids is None or len(built.inputs) > 2 + ("decoder_input_ids" in built.inputs):
        return {}
    runs = {}
    for side, columns in (("left", slice(None, _PADDED)), ("right", slice(-_PADDED, None))):
        padded = mask.clone()
        padded[1, columns] = 0
        run = _forward(built, attention_mask=padded)
        try:
            with torch.no_grad():
                run()
        except Exception:  # noqa: S112 - the model itself does not take padding on this side
            continue
        runs[f"padded {side}"] = _compare_padded(built.model, run, padded)
    return runs


def _compare_padded(model: nn.Module, run: Callable[[], Any], mask: Tensor) -> Comparison:
    """Outputs, traces, and the rows of the first example, which has no padding."""
    comparison = Comparison(BATCH)
    with torch.no_grad():
        plain = run()
        comparison.noise = difference(plain, run())
        with Recorder(model) as recorder:
            run()
        try:
            with regard.watch(model) as seen:
                output = run()
            comparison.traces, comparison.maps = len(seen), len(seen[0].maps)
            comparison.watched = difference(plain, output)
            comparison.inexact = _check_padding(recorder.calls, list(seen), mask)
        except Exception as error:
            if "no attention was seen" not in str(error):
                comparison.errors.append(describe_error(error))
    return comparison


def _check_padding(calls: list[RecordedCall], traces: list[Trace], mask: Tensor) -> list[str]:
    """Sites whose map of an example has not exactly the weights of its real tokens."""
    wrong: dict[str, None] = {}
    for call in calls:
        if call.weights.dim() != 4 or call.axis != -1 or len(call.weights) != len(mask):
            continue
        for example, trace in enumerate(traces[: len(mask)]):
            texts = [
                _check_padded_map(call.weights[example], attention_map, mask[example])
                for attention_map in maps_of_call(trace, call)
            ]
            if texts and all(texts):  # a module that runs twice has two maps
                wrong[f"{call.site}: example {example} {texts[0]}"] = None
    return list(wrong)


def _check_padded_map(weights: Tensor, attention_map: AttentionMap, mask: Tensor) -> str:
    """What is wrong with the map of a padded example, nothing if all is well."""
    tokens, real = len(mask), mask.bool()
    for axis, name in ((1, "rows"), (2, "columns")):
        if weights.shape[axis] != tokens:
            continue
        if attention_map.shape[axis] < int(real.sum()):
            return f"has {attention_map.shape[axis]} {name} for {int(real.sum())} tokens"
        if attention_map.shape[axis] == int(real.sum()):
            weights = weights.movedim(axis, 0)[real].movedim(0, axis)
    shown = attention_map.weights().detach()
    if shown.shape != weights.shape:
        return ""  # decoding steps, or blocks that were joined
    return "" if float((shown - weights).abs().max()) <= TOLERANCE else "differs"


def _generations(built: Built) -> dict[str, Comparison]:
    """Greedy and beam search, if the model generates."""
    model: Any = built.model
    if not getattr(model, "can_generate", lambda: False)():
        return {}
    runs = {}
    for name, beams in (("greedy", 1), ("beam", 2)):
        run = _generate(built, beams)
        try:
            with torch.no_grad():
                plain = run()
        except Exception:  # noqa: S112 - this model generates with other inputs only
            continue
        if plain is not None:
            runs[name] = _compare_generation(built, run, plain, beams)
    return runs


def _generate(built: Built, beams: int) -> Callable[[], Any]:
    """A generation of a few tokens."""
    inputs = {
        name: value for name, value in built.inputs.items() if not name.startswith("decoder_")
    }
    settings = {"max_new_tokens": _NEW_TOKENS, "min_new_tokens": _NEW_TOKENS, "do_sample": False}

    def run() -> Any:
        torch.manual_seed(1)
        return built.model.generate(**copy.deepcopy(inputs), **settings, num_beams=beams)  # type: ignore[operator]

    return run


def _compare_generation(built: Built, run: Callable[[], Any], plain: Any, beams: int) -> Comparison:
    """Tokens, the number of traces, and decoding steps that were not stacked."""
    comparison = Comparison(BATCH)
    model = built.model
    with torch.no_grad():
        comparison.noise = difference(plain, run())
        try:
            with regard.watch(model) as seen:
                tokens = run()
            traces = list(seen)
        except Exception as error:
            if "no attention was seen" not in str(error):
                comparison.errors.append(describe_error(error))
            return comparison
        with suppress(Exception), regard.watch(model) as once:
            _forward(built)()
        comparison.inexact = _check_steps(traces[0], once[0]) if len(once) else []
    comparison.watched = difference(plain, tokens)
    describe_traces(traces, comparison)
    # a beam search that is not labelled gives a trace for each beam
    comparison.traces = BATCH if len(traces) == BATCH * beams else len(traces)
    return comparison


def _check_steps(generated: Trace, forward: Trace) -> list[str]:
    """Sites that have more maps or other kinds after generation than after one forward pass."""
    wrong = []
    before, after = _maps_by_site(forward), _maps_by_site(generated)
    for site, maps in after.items():
        expected = before.get(site, [])
        if not expected:
            continue
        if len(maps) > len(expected) and not _are_rereadings(maps):
            shapes = [f"{m.shape[1]} x {m.shape[2]}" for m in maps[:5]]
            wrong.append(f"{site}: steps not stacked: {', '.join(shapes)}")
        elif (maps[0].kind == "cross") != (expected[0].kind == "cross"):
            wrong.append(f"{site}: {expected[0].kind} became {maps[0].kind}")
    return wrong


def _are_rereadings(maps: list[AttentionMap]) -> bool:
    """True if each step has read all tokens again, and more: where all see all, these are maps."""
    sizes = [attention_map.shape[1:] for attention_map in maps]
    is_growing = all(one[0] < other[0] for one, other in pairwise(sizes))
    return is_growing and all(queries == keys for queries, keys in sizes)


def _maps_by_site(trace: Trace) -> dict[str, list[AttentionMap]]:
    """The maps of each site, without the numbers of repeated runs."""
    maps: dict[str, list[AttentionMap]] = {}
    for attention_map in trace.maps:
        maps.setdefault(cut_numbers(attention_map.site), []).append(attention_map)
    return maps


def _sampled_weights(built: Built, traces: list[Trace]) -> list[Tensor]:
    """The weights over sampling points (deformable attention) of a forward pass that has maps."""
    with torch.no_grad(), Recorder(built.model) as recorder:
        _forward(built)()
    return [call.weights for call in recorder.calls if is_sampled(call, traces)]


def _have_same_numbers(one: Tensor, other: Tensor) -> bool:
    """True if two tensors hold the same numbers, on whatever axes."""
    if one.numel() != other.numel():
        return False
    difference = one.flatten().double().sort().values - other.flatten().double().sort().values
    return bool(difference.abs().max() <= TOLERANCE)


def _eager_run(model_type: str, class_name: str) -> dict[str, Comparison]:
    """The weights that the model itself returns in eager mode, looked for in the maps."""
    try:
        built = build(model_type, class_name, "eager")
        with torch.no_grad():
            output = _forward(built, output_attentions=True)()
    except Exception:  # not every class has an eager form or returns weights
        return {}
    names = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
    returned = [
        weights
        for name in names
        for weights in getattr(output, name, None) or ()
        if isinstance(weights, Tensor) and weights.dim() == 4
    ]
    if not returned:
        return {}
    comparison = _compare_forward(built)
    with torch.no_grad(), regard.watch(built.model) as seen:
        _forward(built)()
    index, sampled = MapIndex(seen), _sampled_weights(built, list(seen))
    for number, weights in enumerate(returned):
        if bool((weights < 0).any()):
            weights = weights.softmax(-1)  # a model may return its scores
        if any(_have_same_numbers(weights, other) for other in sampled):
            continue  # over sampling points; the map is over the cells between which they lie
        if index.has_means(weights):
            continue
        slices = weights.float().flatten(0, 1)
        missing = sum(
            not (index.has_corner(part) or index.has_rows(part))
            and not index.has_rows(cut_hidden_keys(part))
            for part in slices
        )
        if missing and not comparison.gaps:
            text = f"returned weights {number}: {missing} of {len(slices)} differ"
            comparison.inexact.append(text)
    return {"eager": comparison}
