"""What the commands say, in English and Chinese side by side."""

from typing import NamedTuple

LANGUAGES = ("en", "zh")


class Text(NamedTuple):
    """A sentence in the languages that we speak."""

    en: str
    zh: str


_LABELS = {
    "aliases": Text("Aliases", "别名"),
    "cost": Text("Time", "时间"),
    "family": Text("Family", "类别"),
    "formula": Text("Formula", "公式"),
    "heads": Text("Heads", "多头"),
    "laws": Text("Laws that it obeys, or why it does not", "是否满足各条定律，及不满足的原因"),
    "legend": Text(
        "n queries, m keys, width d. More about one: regard mechanisms NAME",
        "n 个查询，m 个键，宽度 d。查看某一种：regard mechanisms 名称",
    ),
    "lines done": Text(
        "{done} of {count} lines, about {left} s left", "已完成 {done}/{count} 行，约剩 {left} 秒"
    ),
    "memory": Text("Memory", "内存"),
    "name": Text("Name", "名称"),
    "no": Text("no", "否"),
    "no browser": Text(
        "no browser was found; open {path} yourself", "找不到浏览器；请自行打开 {path}"
    ),
    "none": Text("none", "无"),
    "normalizer": Text("Normalizer", "归一化"),
    "paper": Text("Paper", "论文"),
    "position": Text("Position", "位置"),
    "python": Text("In Python (also key_dim=, heads=)", "Python 写法（另有 key_dim=、heads=）"),
    "reach": Text("Reach", "可见范围"),
    "score": Text("Score", "打分"),
    "year": Text("Year", "年份"),
    "yes": Text("yes", "是"),
}

_LESSON = {
    "context": Text("context", "上下文"),
    "given vectors": Text(
        "Query, key and value of a word are all its vector, {dim} numbers from {path}.",
        "每个词的查询、键和值都是它的词向量：{dim} 个数，取自 {path}。",
    ),
    "masked": Text("masked", "遮蔽"),
    "more": Text(
        "… {hidden} more numbers of each vector; --json prints them all.",
        "… 每个向量另有 {hidden} 个数未显示；--json 可全部输出。",
    ),
    "quoted": Text("{word}", "「{word}」"),
    "random vectors": Text(
        "Query, key and value of a word are all its vector, {dim} random numbers (seed {seed}): "
        "they carry no meaning. Give real vectors with --vectors FILE.",
        "每个词的查询、键和值都是它的词向量：{dim} 个随机数（种子 {seed}），不含语义。"
        "用 --vectors 文件 可换成真实的词向量。",
    ),
    "step 1": Text(
        "Step 1: similarity of {query} with each word", "第 1 步：{query}与各词的相似度"
    ),
    "step 2": Text(
        "Step 2: similarities become weights, how much {query} looks at each word",
        "第 2 步：相似度归一化为权重，即{query}对各词的关注程度",
    ),
    "step 3": Text(
        "Step 3: the weighted values sum to the context of {query}",
        "第 3 步：加权后的值求和，得到{query}的上下文",
    ),
    "every word": Text("every word", "每个词"),
    "untrained": Text(
        "The parameters of {name} are untrained, random from seed {seed}.",
        "{name} 的参数未经训练，由种子 {seed} 随机生成。",
    ),
    "vectors": Text("Word vectors", "词向量"),
    "word": Text("word", "词"),
}


def say(label: str, language: str, **values: object) -> str:
    """A label of the commands in this language."""
    text: str = getattr((_LABELS | _LESSON)[label], language)
    return text.format(**values)


def law(name: str, sentence: str, language: str) -> tuple[str, str]:
    """A law's name and sentence in this language; one without a translation stays as it is."""
    return translated(name, language), translated(sentence, language)


def translated(sentence: str, language: str) -> str:
    """A text of the catalog in this language; a plain string stays as it is."""
    text: str = getattr(sentence, language, sentence)
    return text
