"""Draws the figures of docs/recall.md from the results that experiment.py saved.

python recipes/recall/draw.py --to docs/pictures
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib
from experiment import DISTANCES, HERE, LENGTHS, NETWORKS, SEEDS, SYMBOLS, key
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

COLOURS = dict(zip(NETWORKS, ("#b3b3b3", "#c2410c", "#2a9d8f", "#1f6fb2"), strict=True))
STYLE = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.dpi": 200,
}


def values(results: dict[str, Any], name: str, distance: int, quantity: str) -> list[float]:
    """One measured quantity of a network at a distance, for every seed."""
    return [results[key(seed, distance, name)][quantity] for seed in SEEDS]


def by_distance(axes: Axes, results: dict[str, Any], quantity: str) -> None:
    """Plot a quantity against distance: the median over seeds as a line, their range as a band."""
    # Curves that coincide stay visible because those drawn later are thinner.
    for (name, colour), line_width in zip(COLOURS.items(), (1.5, 4.5, 2.8, 1.1), strict=True):
        rows = [sorted(values(results, name, distance, quantity)) for distance in DISTANCES]
        middle, low, high = ([row[index] for row in rows] for index in (len(SEEDS) // 2, 0, -1))
        axes.plot(
            DISTANCES, middle, "o-", color=colour, label=name, markersize=3, linewidth=line_width
        )
        axes.fill_between(DISTANCES, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(DISTANCES, [str(distance) for distance in DISTANCES])
    axes.set_xlabel("distance: tokens of noise on either side")


def draw_recall(results: dict[str, Any]) -> plt.Figure:
    """The share of symbols recalled, and the gradient that reaches those symbols."""
    figure, (recall, gradient) = plt.subplots(1, 2, figsize=(7.0, 2.7), layout="constrained")
    by_distance(recall, results, "right")
    recall.axhline(1 / SYMBOLS, color="#999999", linewidth=0.8, linestyle=":")
    recall.text(DISTANCES[-1], 1 / SYMBOLS + 0.02, "chance", ha="right", color="#666666")
    recall.set(ylim=(0, 1.04), ylabel="symbols recalled")
    recall.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1))
    by_distance(gradient, results, "gradient before")
    gradient.set(yscale="log", ylabel="gradient at the symbols, untrained")
    gradient.legend(loc="lower left")
    return figure


def draw_times(rows: list[dict[str, Any]]) -> plt.Figure:
    """The time of a training step by source length, with one thread and with two."""
    figure, panels = plt.subplots(1, 2, figsize=(7.0, 2.5), layout="constrained", sharey=True)
    for axes, threads in zip(panels, (1, 2), strict=True):
        for name, colour in COLOURS.items():
            times = [
                1000 * row["seconds"]
                for row in rows
                if (row["network"], row["threads"]) == (name, threads)
            ]
            axes.plot(LENGTHS, times, "o-", color=colour, label=name, markersize=3)
        axes.set_xscale("log", base=2)
        axes.set_xticks(LENGTHS, [str(length) for length in LENGTHS])
        axes.minorticks_off()
        axes.set(xlabel="tokens of a source", title=f"{threads} thread{'s' * (threads > 1)}")
    panels[0].set(yscale="log", ylabel="a step of training (ms)")
    panels[0].legend(loc="upper left")
    return figure


def main() -> None:
    """Draw both figures and save them as PNG files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--of", type=Path, default=HERE, help="the folder of the results")
    parser.add_argument("--to", type=Path, required=True, help="the folder of the figures")
    args = parser.parse_args()
    with matplotlib.rc_context(STYLE):
        for name, draw in (("recall", draw_recall), ("times", draw_times)):
            results = json.loads((args.of / f"{name}.json").read_text("utf-8"))
            draw(results).savefig(args.to / f"recall-{name}.png")


if __name__ == "__main__":
    main()
