"""The scores of a model as the terminal shows them, and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_WORDS = {
    "pairs": ("pairs", "句对", "{:d}"),
    "texts": ("texts", "文本", "{:d}"),
    "bleu": ("BLEU", "BLEU", "{:.2f}"),
    "chrf": ("chrF", "chrF", "{:.2f}"),
    "loss": ("loss of a token", "每词元损失", "{:.4f}"),
    "perplexity": ("perplexity", "困惑度", "{:.2f}"),
    "speed": ("target tokens/s", "目标词元/秒", "{:,.0f}"),
    "signature": ("sacrebleu", "sacrebleu", "{}"),
    "length": ("chrF of {} source words ({} pairs)", "源句 {} 词的 chrF（{} 对）", "{:.2f}"),
    "aer": ("alignment error rate ({} sentences)", "对齐错误率（{} 句）", "{:.1%}"),
    "precision": ("  precision", "  精确率", "{:.1%}"),
    "recall": ("  recall", "  召回率", "{:.1%}"),
    "diagonal": ("  of the diagonal", "  对角线基线", "{:.1%}"),
    "unknown": ("  unknown words of both sides", "  未登录词，源与目标", "{0[0]:.1%}, {0[1]:.1%}"),
    "peaks": ("right peaks ({} sentences)", "峰值正确率（{} 句）", "{:.1%}"),
}  # fmt: skip


@dataclass
class Scores:
    """The numbers of a model, and what was asked for beside: lengths, links and peaks."""

    numbers: Mapping[str, Any]
    lengths: Sequence[Mapping[str, Any]] = ()
    alignment: Mapping[str, Any] | None = None
    peaks: Mapping[str, Any] | None = None

    def record(self) -> dict[str, Any]:
        """All of it as JSON types."""
        found = dict(self.numbers)
        if self.lengths:
            found["by_length"] = list(self.lengths)
        if self.alignment is not None:
            found["alignment"] = self.alignment
        if self.peaks is not None:
            found["peaks"] = {name: self.peaks[name] for name in ("sentences", "peaks", "unknown")}
        return found


def shown(scores: Scores, language: str) -> str:
    """A line for each number: what it is, and the number."""
    return "\n".join(f"{name}: {value}" for name, value in _lines(scores, language == "zh"))


def _lines(scores: Scores, chinese: bool) -> Iterator[tuple[str, str]]:
    for name, value in scores.numbers.items():
        if name in _WORDS:
            yield _said(name, chinese), _WORDS[name][2].format(value)
    for each in scores.lengths:
        reach = f"{each['first']}+" if each["last"] is None else f"{each['first']}-{each['last']}"
        yield _said("length", chinese, reach, each["pairs"]), f"{each['chrf']:.2f}"
    if scores.alignment is not None:
        yield from _alignment(scores.alignment, chinese)
    if scores.peaks is not None:
        name = _said("peaks", chinese, scores.peaks["sentences"])
        yield name, _WORDS["peaks"][2].format(scores.peaks["peaks"])


def _alignment(found: Mapping[str, Any], chinese: bool) -> Iterator[tuple[str, str]]:
    links = found["agreement"]
    values = {
        "aer": links["error_rate"],
        "precision": links["precision"],
        "recall": links["recall"],
        "diagonal": found["diagonal"]["error_rate"],
        "unknown": found["unknown"],
    }
    for name, value in values.items():
        said = (found["sentences"],) if name == "aer" else ()
        yield _said(name, chinese, *said), _WORDS[name][2].format(value)


def _said(name: str, chinese: bool, *values: object) -> str:
    return _WORDS[name][chinese].format(*values)
