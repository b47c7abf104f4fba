"""The rows of a survey as a table in Markdown: verdicts by class and by architecture."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from bench.architectures.compare import VERDICTS

__all__ = ["describe_failures", "summarise"]

_WITHOUT_WEIGHTS = "gap of layers without weights"
_PHRASE = "no weight of one token on another is ever computed"  # in the reasons of such gaps
_COMPARED = list(VERDICTS)
_COMPARED.insert(_COMPARED.index("exact"), _WITHOUT_WEIGHTS)
_ALL = ("not finished", *_COMPARED, "not built")
_GOOD = ("exact", "no attention")
_SILENT = ("silent miss", "silent mixing", "refused")
_LINES = {
    "exact": ("exact",),
    "named gap": ("named gap",),
    "gap of layers without weights, beside exact maps": (_WITHOUT_WEIGHTS,),
    "silent miss": _SILENT,
    "crash": ("crash",),
    "outputs changed": ("outputs changed",),
    "wrong trace count": ("wrong trace count",),
    "inexact": ("inexact",),
}
_OTHERS = ("no attention", "not built", "not finished")


def summarise(rows: Iterable[dict[str, Any]]) -> str:
    """Counts of verdicts; an architecture has the worst verdict of its classes that were built.

    Shares are of the architectures that attend. A silent miss is attention without map or gap, also
    where watching refuses a model in which only other mixing than a softmax attends.
    """
    rows = list(rows)
    classes = Counter(_verdict_of(row) for row in rows)
    by_type = defaultdict(list)
    for row in rows:
        by_type[row["type"]].append(_verdict_of(row))
    worst = Counter(_worst(verdicts) for verdicts in by_type.values())
    attending = sum(worst[verdict] for verdict in _COMPARED if verdict != "no attention")
    lines = ["| verdict | architectures | share | classes |", "|---|--:|--:|--:|"]
    for name, verdicts in _LINES.items():
        count = sum(worst[verdict] for verdict in verdicts)
        share = f"{100 * count / max(1, attending):.1f}%"
        lines.append(f"| {name} | {count} | {share} | {sum(classes[v] for v in verdicts)} |")
    own = sum(classes[verdict] for verdict in _COMPARED if verdict != "no attention")
    lines.append(f"| **attending** | **{attending}** | | **{own}** |")
    lines += [f"| {name} | {worst[name]} | | {classes[name]} |" for name in _OTHERS]
    lines.append(f"| all | {len(by_type)} | | {len(rows)} |")
    return "\n".join(lines)


def _verdict_of(row: dict[str, Any]) -> str:
    """The verdict of a row; gaps of layers that compute no weights at all are told apart."""
    gaps = [gap for run in row.get("runs", {}).values() for gap in run["gaps"]]
    is_without = row["verdict"] == "named gap" and all(_PHRASE in gap for gap in gaps)
    return _WITHOUT_WEIGHTS if is_without and gaps else str(row["verdict"])


def _worst(verdicts: list[str]) -> str:
    """The worst verdict of the classes that were built and compared."""
    compared = [verdict for verdict in verdicts if verdict in _COMPARED]
    # a class without attention, such as a codec, does not decide for the others
    attending = [verdict for verdict in compared if verdict != "no attention"]
    return min(attending or compared or verdicts, key=_ALL.index, default="not built")


def describe_failures(rows: Iterable[dict[str, Any]]) -> str:
    """One line for each class that is neither exact nor without attention, with the cause."""
    lines = []
    for row in sorted(rows, key=lambda row: (_ALL.index(row["verdict"]), row["type"])):
        if row["verdict"] not in _GOOD:
            lines.append(f"- {row['verdict']}: {row['type']} {row['class']}: {_cause(row)}")
    return "\n".join(lines)


def _cause(row: dict[str, Any]) -> str:
    """What made the verdict of a row, in one line."""
    if "runs" not in row:
        return " ".join(row.get("reason", "").split())[-300:]
    for name, run in row["runs"].items():
        if run["verdict"] != row["verdict"]:
            continue
        signs = {
            "crash": run["errors"],
            "outputs changed": (run["watched"], run["beside"], run["noise"]),
            "silent miss": run["missed"],
            "wrong trace count": f"{run['traces']} traces for {run['batch']} examples",
            "inexact": run.get("inexact"),
            "named gap": run["gaps"],
        }
        return f"{name}: {signs.get(row['verdict'], run['mixing'])}"[:400]
    return ""
