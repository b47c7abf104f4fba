"""The runs of one class: forward, eager weights, padding, greedy and beam search."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import regard
from bench.architectures.build import Built, NotBuiltError, build
from bench.architectures.compare import VERDICTS, Comparison, compare, describe_error
from bench.architectures.inputs import BATCH
from bench.architectures.matching import MapIndex
from bench.architectures.tensors import difference

__all__ = ["survey_class"]

_PADDED = 4  # tokens of the second example that are padding
_NEW_TOKENS = 4


def survey_class(model_type: str, class_name: str, *, perturb: bool) -> dict[str, Any]:
    """The row of a class: its runs with their verdicts, and the worst verdict of all."""
    row: dict[str, Any] = {"type": model_type, "class": class_name}
    try:
        built = build(model_type, class_name)
    except NotBuiltError as error:
        return {**row, "verdict": "not built", "reason": str(error)[-1500:]}
    shapes = {name: list(getattr(value, "shape", ())) for name, value in built.inputs.items()}
    row |= {"level": built.level, "inputs": shapes}
    runs = {"forward": compare(built.model, _forward(built), BATCH, perturb=perturb)}
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
        try:
            with regard.watch(model) as seen:
                output = run()
            comparison.traces, comparison.maps = len(seen), len(seen[0].maps)
            comparison.watched = difference(plain, output)
            comparison.notes = _dropped_tokens(seen, mask)
        except Exception as error:
            if "no attention was seen" not in str(error):
                comparison.errors.append(describe_error(error))
    return comparison


def _dropped_tokens(seen: Any, mask: Tensor) -> list[str]:
    """Maps of a padded example that have fewer rows than it has tokens."""
    notes = []
    for example, tokens in enumerate(mask.sum(1).tolist()):
        full = mask.shape[1]
        for attention_map in seen[example].maps if example < len(seen) else ():
            rows = attention_map.shape[1]
            if tokens - 2 <= rows < tokens:
                notes.append(f"{attention_map.site}: {rows} rows for {tokens} of {full} tokens")
    return notes


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
            runs[name] = _compare_generation(model, run, plain, beams)
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


def _compare_generation(
    model: nn.Module, run: Callable[[], Any], plain: Any, beams: int
) -> Comparison:
    """Tokens, the number of traces, and decoding steps that were not stacked."""
    comparison = Comparison(BATCH)
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
    comparison.watched = difference(plain, tokens)
    comparison.maps = sum(len(trace.maps) for trace in traces)
    # a beam search that is not labelled gives a trace for each beam
    comparison.traces = BATCH if len(traces) == BATCH * beams else len(traces)
    unstacked = {m.site for trace in traces for m in trace.maps if "#" in m.site}
    if unstacked:
        comparison.notes.append(f"steps not stacked: {sorted(unstacked)[:4]}")
    return comparison


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
    comparison = compare(built.model, _forward(built), BATCH)
    with torch.no_grad(), regard.watch(built.model) as seen:
        _forward(built)()
    index = MapIndex(seen)
    for number, weights in enumerate(returned):
        slices = weights.double().flatten(0, 1)
        missing = sum(not index.has_rows(part) for part in slices)
        if missing and not comparison.gaps:
            comparison.notes.append(f"returned weights {number}: {missing} of {len(slices)} differ")
    return {"eager": comparison}
