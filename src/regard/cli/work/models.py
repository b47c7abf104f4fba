"""The work of `regard models`, and how a portrait is shown."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from regard.cli.output import as_text
from regard.loading import ModelDescription, cached_models, describe_model, find_models
from regard.models import shipped_models
from regard.models.checkpoints.locations import checkpoint_folder

_WORDS = {
    "shipped": ("Shipped with regard", "随 regard 附带"),
    "cached": ("In the cache of Hugging Face", "Hugging Face 缓存中"),
    "none": ("none", "无"),
    "name": ("Name", "名称"),
    "task": ("Task", "任务"),
    "size": ("Size", "大小"),
    "parameters": ("Parameters", "参数量"),
    "loads": ("Loaded by", "加载方式"),
    "score": ("Score", "分数"),
    "folder": ("Folder", "目录"),
    "architecture": ("Architecture", "架构"),
    "layers": ("Layers", "层数"),
    "heads": ("Heads", "头数"),
    "width": ("Width", "宽度"),
    "vocabulary": ("Vocabulary", "词表"),
    "context": ("Context", "上下文长度"),
    "tokenizer": ("Tokenizer", "分词器"),
    "translates": ("text to text", "文本到文本"),
    "continues": ("continues texts", "续写文本"),
    "fills": ("fills masks", "填空"),
    "classifies": ("classifies", "分类"),
    "answers": ("finds answers", "抽取答案"),
    "reads": ("reads", "编码文本"),
    "sees": ("sees pictures", "看图"),
}
_COLUMNS = ("name", "task", "parameters", "size", "loads", "score")
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def run(folder: Path | None, lang: str, as_json: bool) -> None:
    """Print what is here."""
    if folder is not None:
        found = {"": [describe_model(each) for each in find_models(folder.expanduser())]}
    else:
        found = {
            "shipped": [describe_model(checkpoint_folder(name), name) for name in shipped_models()],
            "cached": [describe_model(place, name) for name, place in cached_models().items()],
        }
    if as_json:
        records = {part: [each.to_json() for each in some] for part, some in found.items()}
        click.echo(as_text(records.get("", records), indent=2))
        return
    console = Console(highlight=False)
    for part in _parts(found, lang):
        console.print(part)


def _parts(found: dict[str, list[ModelDescription]], lang: str) -> Iterator[RenderableType]:
    for part, some in found.items():
        if part:
            yield Text(said(part, lang), style="bold")
        if len(some) == 1 and not part:
            yield portrayed(some[0], lang)
        else:
            yield _table(some, lang) if some else Text(f"  {said('none', lang)}", style="dim")


def said(word: str, lang: str) -> str:
    """A word of this page."""
    return _WORDS[word][lang == "zh"] if word in _WORDS else word


def portrayed(each: ModelDescription, lang: str) -> Table:
    """All that is known of one model, a line each."""
    facts = {
        "name": each.name,
        "folder": each.folder,
        "architecture": each.architecture,
        "task": said(each.task, lang),
        "layers": _counts(each.layers),
        "heads": _counted(each.heads),
        "width": _counted(each.width),
        "parameters": _counted(each.parameters),
        "size": size_of(each.bytes),
        "vocabulary": _counts(each.vocabulary),
        "context": _counted(each.context),
        "tokenizer": each.tokenizer or said("none", lang),
        "loads": each.loads + (f" ({each.why})" if each.why else ""),
        "score": each.score,
    }
    return columns((said(name, lang), value) for name, value in facts.items() if value)


def columns(rows: Iterable[tuple[str, str]]) -> Table:
    """Two columns without headings, the second folded where it does not fit."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for label, value in rows:
        table.add_row(Text(label, style="bold"), Text(value, overflow="fold"))
    return table


def _table(some: Sequence[ModelDescription], lang: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    for name in _COLUMNS:
        right = name in ("parameters", "size")
        table.add_column(
            said(name, lang),
            justify="right" if right else "left",
            overflow="fold",
            no_wrap=name != "score",
        )
    for each in some:
        table.add_row(
            Text(each.name, style="cyan"),
            Text(said(each.task, lang)),
            _counted(each.parameters),
            size_of(each.bytes),
            Text(each.loads),
            Text(each.score or ""),
        )
    return table


def _counted(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _counts(numbers: Sequence[int]) -> str:
    return " + ".join(f"{each:,}" for each in numbers)


def size_of(count: int) -> str:
    """Bytes as one reads them."""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"
