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

_LAWS = {
    "sums to one": ("和为一", "每一行的权重非负，且总和为一"),
    "masked key": ("遮蔽的键", "被遮蔽的键权重恰为零，梯度也不会流到它"),
    "empty row": ("空行", "看不到任何键的行输出全零，其梯度也为零"),
    "permutation": ("置换", "键和值一起重新排列，结果不变"),
    "padding": ("填充", "单独一个样本与它在填充批次中的结果相同"),
    "gradients": ("梯度", "每个输入和参数的梯度都与有限差分一致"),
    "reference": ("参照", "快速形式等于双精度的朴素循环"),
    "half precision": ("半精度", "bfloat16 与 float16 的误差在声明的范围内"),
}

_SENTENCES = {
    "the position of a key counts": "键的位置会影响结果",
    "choosing one key is not differentiable": "只选一个键，不可微",
    "the output projection adds its own bias": "输出投影会加上自己的偏置",
    "the Gaussian factor comes after the softmax (eq. 10)": "高斯因子乘在 softmax 之后（式 10）",
    "α = softmax over the k largest e": "α = 在最大的 k 个 e 上做 softmax",
    "α = argmin over the simplex of ‖α − e‖²": "α = 单纯形上使 ‖α − e‖² 最小者",
    "α = argmax over the simplex of α·e + H_a(α), a = 1.5": (
        "α = 单纯形上使 α·e + H_a(α) 最大者, a = 1.5"
    ),
    "entmax with a = 1 + sigmoid(θ) learned by each head": "entmax, 各头自学 a = 1 + sigmoid(θ)",
    "query i sees all keys": "查询 i 可见所有键",
    "query i sees keys i − D .. i + D": "查询 i 可见键 i − D .. i + D",
    "query i sees keys 0 .. i": "查询 i 可见键 0 .. i",
    "query i sees keys i − w .. i": "查询 i 可见键 i − w .. i",
    "head h reads key head ⌊h / g⌋": "第 h 头读第 ⌊h / g⌋ 个键头",
    "all heads read one key head": "所有头读同一个键头",
    "O(n m h), h the hidden width": "O(n m h), h 为隐层宽度",
    "O(n m d), no second product": "O(n m d), 没有第二次乘法",
    "O(n m (d + t)), t Newton steps": "O(n m (d + t)), t 为牛顿步数",
    "O(n m d), half of it skipped": "O(n m d), 跳过一半",
    "O((n + m) d), the weights are never held": "O((n + m) d), 不保存权重",
    "O((n + m) d) and a block of scores; O(n m) under autograd": (
        "O((n + m) d) 加一块得分；求导时 O(n m)"
    ),
    "O(n m) under autograd, for the table's gradient": "求导时 O(n m), 用于偏置表的梯度",
    "a cache g times smaller than multi-head": "缓存为多头的 1/g",
    "a cache h times smaller than multi-head": "缓存为多头的 1/h",
}


def say(label: str, language: str, **values: object) -> str:
    """A label of the commands in this language."""
    text: str = getattr((_LABELS | _LESSON)[label], language)
    return text.format(**values)


def law(name: str, sentence: str, language: str) -> tuple[str, str]:
    """A law's name and sentence in this language; one without a translation stays as it is."""
    return _LAWS.get(name, (name, sentence)) if language == "zh" else (name, sentence)


def translated(sentence: str, language: str) -> str:
    """A formula, cost or reason of the catalog; one that is all symbols stays as it is."""
    return _SENTENCES.get(sentence, sentence) if language == "zh" else sentence
