"""The rows of a survey as a table in Markdown: verdicts by class and by architecture."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from bench.architectures.compare import VERDICTS

__all__ = ["describe_failures", "summarise"]

_ALL = ("not finished", *VERDICTS, "not built")
_GOOD = ("exact", "no attention")


def summarise(rows: Iterable[dict[str, Any]]) -> str:
    """Counts of verdicts; an architecture has the worst verdict of its classes that were built."""
    rows = list(rows)
    classes = Counter(row["verdict"] for row in rows)
    by_type = defaultdict(list)
    for row in rows:
        by_type[row["type"]].append(row["verdict"])
    worst = Counter(_worst(verdicts) for verdicts in by_type.values())
    lines = ["| verdict | architectures | classes |", "|---|--:|--:|"]
    order = ("exact", "named gap", *(v for v in _ALL if v not in ("exact", "named gap")))
    lines += [f"| {v} | {worst[v]} | {classes[v]} |" for v in order if classes[v] or worst[v]]
    lines.append(f"| all | {len(by_type)} | {len(rows)} |")
    return "\n".join(lines)


def _worst(verdicts: list[str]) -> str:
    """The worst verdict of the classes that were built."""
    built = [verdict for verdict in verdicts if verdict != "not built"]
    # a class without attention, such as a codec, does not decide for the others
    attending = [verdict for verdict in built if verdict != "no attention"] or built
    return min(attending, key=_ALL.index, default="not built")


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
            "named gap": run["gaps"],
        }
        return f"{name}: {signs.get(row['verdict'], run['mixing'])}"[:400]
    return ""
