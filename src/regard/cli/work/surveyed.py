"""A survey as the terminal and the page show it, in English and Chinese."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.console import Group
from rich.table import Table as Grid
from rich.text import Text

from regard.studies.survey.table import SPREAD, Survey
from regard.views.table import Column, Table, short_number


class Word(NamedTuple):
    """What a measure is called, and what it says."""

    en: str
    zh: str
    hint: str
    hint_zh: str


_MEASURES = {
    "entropy": Word(
        "entropy", "熵", "how widely a row is spread, in nats", "一行权重铺开的程度，单位奈特"
    ),
    "effective_keys": Word("keys", "有效键数", "exp(entropy)", "exp(熵)"),
    "evenness": Word(
        "evenness",
        "均匀度",
        "entropy over the largest possible, 0 to 1",
        "熵与其最大值之比，0 到 1",
    ),
    "confidence": Word("largest", "最大权重", "the largest weight of a row", "一行中最大的权重"),
    "distance": Word(
        "distance", "距离", "mean |key - query| in tokens", "|键 − 查询| 的均值，以词元计"
    ),
    "locality": Word(
        "near", "邻近", "mass on itself and both neighbours", "落在自身与左右相邻词元上的权重"
    ),
    "on_first": Word("first", "首词", "mass on the first token", "落在第一个词元上的权重"),
    "on_self": Word("self", "自身", "mass on the token itself", "落在自身上的权重"),
    "on_previous": Word("previous", "前一", "mass on the token before", "落在前一个词元上的权重"),
    "on_next": Word("next", "后一", "mass on the token after", "落在后一个词元上的权重"),
    "on_future": Word("future", "后文", "mass on all that follows", "落在后文上的权重"),
    "on_padding": Word(
        "padding", "填充", "mass on padding: should be 0", "落在填充上的权重：应为 0"
    ),
    "on_sink": Word("sink", "汇", "the share of a learned sink", "可学习的汇所占的份额"),
    "on_special": Word("special", "特殊符", "mass on special tokens", "落在特殊词元上的权重"),
    "on_punctuation": Word("marks", "标点", "mass on punctuation", "落在标点上的权重"),
    "deviation": Word("deviation", "偏差", "largest |1 - sum of a row|", "|1 − 一行之和| 的最大值"),
}
_ABSOLUTE = ("entropy", "effective_keys", "distance", "deviation")  # no shares of a whole
_PRINTED = (
    "entropy", "confidence", "distance", "on_first", "on_self", "on_previous", "on_next",
    "on_special", "on_punctuation",
)  # fmt: skip
_WORDS = {
    "en": {
        "title": "Heads of {model} over {examples:,} texts",
        "note": "Means over texts ± their standard deviation; an example's number is the mean over "
        "its tokens.",
        "cut": "{cut:,} texts were longer than the model reads, and were cut.",
        "site": "site", "kind": "kind", "head": "head", "rows": "rows",
        "written": "{examples:,} texts, {heads} heads: {path}",
        "percent": "mean ± spread over texts; all but entropy and distance in percent",
        "gap": "not seen: {site}: {reason}",
        "interrupted": "interrupted after {done:,} texts; run the same command to go on",
    },
    "zh": {
        "title": "{model} 的注意力头，共 {examples:,} 条文本",
        "note": "各文本的均值 ± 标准差；每条文本的数值是其各词元的均值。",
        "cut": "{cut:,} 条文本超出模型可读的长度，已被截断。",
        "site": "位置", "kind": "类型", "head": "头", "rows": "行数",
        "written": "{examples:,} 条文本，{heads} 个头：{path}",
        "percent": "各文本的均值 ± 标准差；除熵与距离外均为百分比",
        "gap": "未能看到：{site}：{reason}",
        "interrupted": "已处理 {done:,} 条文本后中断；再次运行同一命令即可继续",
    },
}  # fmt: skip


def say(label: str, language: str, **values: object) -> str:
    """A sentence of the command in a language."""
    return _WORDS[language][label].format(**values)


def named(measure: str, language: str) -> tuple[str, str]:
    """What a measure is called, and what it says."""
    word = _MEASURES[measure]
    return (word.zh, word.hint_zh) if language == "zh" else (word.en, word.hint)


def record(survey: Survey, model: str) -> dict[str, Any]:
    """The survey as JSON types, a head after the other."""
    return {
        "model": model,
        "examples": survey.examples,
        "cut": survey.cut,
        "gaps": dict(survey.gaps),
        "heads": survey.rows,
    }


def page(survey: Survey, model: str, language: str) -> Table:
    """The page of a survey: a sortable table, a row for each head."""
    places = [Column(say(name, language)) for name in ("site", "kind", "head", "rows")]
    measures = [
        Column(*named(name, language), shares=name not in _ABSOLUTE) for name in survey.measures
    ]
    rows = [
        [
            *(row[name] for name in ("site", "kind", "head", "rows")),
            *(
                None if row[name] is None else (row[name], row[name + SPREAD])
                for name in survey.measures
            ),
        ]
        for row in survey.rows
    ]
    title = say("title", language, model=model, examples=survey.examples)
    note = " ".join([say("note", language), *_remarks(survey, language)])
    return Table(title, places + measures, rows, note, language)


def printed(survey: Survey, language: str) -> Group:
    """The survey for the terminal: a grid of means and spreads for each site."""
    grids = [each for site in survey.sites for each in _site(survey, site, language)]
    remarks = [Text(f"\n{each}") for each in _remarks(survey, language)]
    return Group(Text(say("percent", language), style="dim"), *grids, *remarks)


def _remarks(survey: Survey, language: str) -> Iterator[str]:
    """What the numbers do not say by themselves."""
    if survey.cut:
        yield say("cut", language, cut=survey.cut)
    for site, reason in survey.gaps.items():
        yield say("gap", language, site=site, reason=reason)


def _site(survey: Survey, site: str, language: str) -> Iterator[Text | Grid]:
    rows = [row for row in survey.rows if row["site"] == site]
    yield Text(f"\n{site}", style="bold").append(f"  {rows[0]['kind']}", style="dim")
    measures = [name for name in _PRINTED if rows[0][name] is not None]
    grid = Grid(box=None, padding=(0, 1, 0, 0))
    grid.add_column(say("head", language), justify="right")
    for name in measures:
        grid.add_column(named(name, language)[0], justify="right", no_wrap=True)
    for row in rows:
        grid.add_row(str(row["head"]), *(_cell(row, name) for name in measures))
    yield grid


def _cell(row: dict[str, Any], name: str) -> str:
    mean, spread = row[name], row[name + SPREAD]
    if mean is None:
        return "–"
    if name in _ABSOLUTE:
        return short_number(mean) + ("" if spread is None else f"±{spread:.1f}")
    return f"{mean:.0%}"[:-1] + ("" if spread is None else f"±{spread:.0%}"[:-1])
