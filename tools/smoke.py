"""Try the wheel as a stranger would: alone in a new environment, every command once.

Run: python tools/smoke.py dist/*.whl

Then the package is installed again from its sources where no compiler can be found: the portable
kernels must do, and say so once.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECIPE = """
task = "language-modelling"
folder = "run"
[data]
train = ["texts.txt"]
dev = "texts.txt"
[vocabulary]
kind = "word"
size = 60
[model]
class = "transformer"
d_model = 16
layers = 2
heads = 2
d_ff = 32
[plan]
steps = 4
tokens = 128
evaluate_every = 4
"""
TEXTS = "once upon a time there was a cat\nthe cat saw a dog and the dog saw the cat\n" * 8
PAIRS = "I love you\t我爱你\nHello!\t你好！\n"
# Two models of tasks for which none is shipped, with random weights.
MODELS = """
from regard.models import Tokenizer, Transformer
tokenizer = Tokenizer.train(["I love you", "who loves tea"] * 9, "bpe", 300)
for folder, head in (("classifier", "classes"), ("reader", "spans")):
    model = Transformer(
        kind="encoder", vocab=len(tokenizer), d_model=16, layers=2, heads=2, d_ff=32, head=head
    )
    model.tokenizer = tokenizer
    model.eval().save_pretrained(folder)
"""
MODEL = "run/model"
NOTE = "native kernels are not built"


@dataclass(frozen=True)
class Trial:
    """A command, and what it is to say; `code` is how it is to end."""

    words: tuple[str, ...]
    says: str = ""
    code: int = 0
    stdin: str | None = None
    makes: tuple[str, ...] = field(default=())


def trials() -> list[Trial]:
    """Every command, and what needs an extra that is not there."""
    love = ("look", "I love you")
    return [
        Trial(("--version",), "regard "),
        Trial(("--help",), "Exit codes"),
        Trial(("--completion", "bash"), "_REGARD_COMPLETE"),
        Trial(("models",), "en-zh-transformer"),
        Trial(("mechanisms",), "bahdanau"),
        Trial(("explain", "我 爱 中国", "--query", "爱"), "0."),
        Trial(love, "我爱你"),
        Trial((*love, "--model", "en-zh-rnn", "--view", "flow", "--lang", "zh"), "我爱你"),
        Trial((*love, "--out", "page.html"), makes=("page.html",)),
        Trial((*love, "--out", "love.trace"), makes=("love.trace",)),
        Trial(("look", "love.trace", "--query", "爱", "--json"), '"weights"'),
        Trial(("info", "love.trace"), "decoder.layers.0.cross"),
        Trial(("info", "en-zh-rnn"), "Recurrent"),
        Trial(("classify", "I love you", "--model", "classifier"), "LABEL_"),
        Trial(
            ("classify", "-", "--model", "classifier", "--json"), '"scores"', stdin="I love it\n"
        ),
        Trial(("classify", "I love you"), "positive"),
        Trial(("classify", "да"), "is in another language", code=2),
        # no model of these is shipped, and their extras are not there
        Trial(("recognise", "--help"), "--model"),
        Trial(("recognise", "cat.png"), "name one with --model", code=2),
        Trial(("transcribe", "--help"), "--model"),
        Trial(("transcribe", "talk.wav"), "name one with --model", code=2),
        Trial(("answer", "Who wrote it?", "--context", "Ada wrote it."), "Ada"),
        Trial(("classify", "央行宣布下调存款准备金率", "--task", "topic"), "finance"),
        Trial(("summarise", "We present a parser that reads text."), ""),
        Trial(
            ("answer", "who", "--context", "I love you", "--model", "reader", "--must-answer"),
            "who →",
        ),
        Trial(("translate", "-"), "我爱你", stdin="I love you\n"),
        Trial(("train", "recipe.toml", "--quiet"), "done", makes=(f"{MODEL}/config.json",)),
        Trial(("generate", "Once upon a time", "--max-length", "11"), "Once upon a time"),
        Trial(("generate", "once upon", "--model", MODEL), "once upon"),
        Trial(("evaluate", MODEL, "texts.txt"), "perplexity"),
        Trial(("look", "--file", "texts.txt", "--model", MODEL, "--limit", "30"), "decoder.layers"),
        Trial(("diagnose", "en-zh-transformer", "I love you"), "en-zh-transformer"),
        Trial(("diagnose", "stories", "Once upon a time", "--short", "--lang", "zh"), "观察："),
        Trial(
            ("survey", "en-zh-transformer", "pairs.tsv", "--out", "heads.csv"), makes=("heads.csv",)
        ),
        Trial(("look", "a", "--model", "nowhere/at-all"), "nowhere/at-all", code=2),
        Trial(("looks",), "did you mean 'look'?", code=2),
        Trial((*love, "--out", "figure.png"), "pip install", code=2),
        Trial(("evaluate", "en-zh-rnn", "pairs.tsv"), "pip install", code=2),
    ]


def environment(**changes: str) -> dict[str, str]:
    """The variables of a stranger's shell, without settings of ours, with changes."""
    own = ("REGARD_", "PYTHON", "LANG", "LC_", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return env | {"COLUMNS": "100", "PYTHONUTF8": "1"} | changes


def installed(package: Path, python: Path, env: dict[str, str], *options: str) -> None:
    """Let pip install a package, and say how long it took."""
    start = time.monotonic()
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *options, str(package)], check=True, env=env)  # noqa: S603
    say(f"{time.monotonic() - start:6.1f} s  installed {package.name}")


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def inspect(python: Path, env: dict[str, str], *, native: bool) -> None:
    """What the installed package brings: types, front end, fonts, models, kernels."""
    code = (
        "import pathlib, regard; from regard.kernels.library import library; "
        "home = pathlib.Path(regard.__file__).parent; "
        "wanted = ['py.typed', 'views/page/front.js', 'views/figure/fonts/RegardSans-Regular.ttf', "
        "*(f'zoo/{each}/model.safetensors' "
        "for each in ('en-zh-rnn', 'en-zh-transformer', 'stories'))]; "
        "print([each for each in wanted if not (home / each).is_file()], library() is not None)"
    )
    ran = subprocess.run(  # noqa: S603
        [str(python), "-c", code], check=True, env=env, capture_output=True, text=True
    )
    if ran.stdout.strip() != f"[] {native}":
        sys.exit(f"expected all files and native kernels: {native}; got {ran.stdout}{ran.stderr}")


def attempt(python: Path, trial: Trial, place: Path, env: dict[str, str]) -> str | None:
    """What is wrong with how a command went; None if nothing is."""
    command = [str(python), "-m", "regard", *trial.words]
    ran = subprocess.run(  # noqa: S603
        command,
        cwd=place,
        env=env,
        input=trial.stdin or "",
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    said = ran.stdout + ran.stderr
    if ran.returncode != trial.code:
        return f"ended with {ran.returncode}, not {trial.code}:\n{said}"
    if trial.says not in said:
        return f"did not say {trial.says!r}:\n{said}"
    if "Traceback" in said or (trial.code and len(ran.stderr.splitlines()) != 1):
        return f"should fail with one line:\n{said}"
    missing = [name for name in trial.makes if not (place / name).is_file()]
    return f"did not write {missing}:\n{said}" if missing else None


def try_all(python: Path, place: Path, env: dict[str, str]) -> int:
    """Run every trial; how many failed."""
    for name, text in (("recipe.toml", RECIPE), ("texts.txt", TEXTS), ("pairs.tsv", PAIRS)):
        (place / name).write_text(text, encoding="utf-8")
    subprocess.run([str(python), "-c", MODELS], cwd=place, env=env, check=True)  # noqa: S603
    failed = 0
    for trial in trials():
        start = time.monotonic()
        wrong = attempt(python, trial, place, env)
        failed += wrong is not None
        verdict = "ok" if wrong is None else f"FAILED: {wrong}"
        say(f"{time.monotonic() - start:6.1f} s  regard {' '.join(trial.words)}  {verdict}")
    return failed


def without_compiler(python: Path, place: Path) -> None:
    """Install from the sources with every compiler hidden: one note, and the same translation."""
    hidden = dict.fromkeys(("CC", "CXX"), "no-such-compiler")
    env = environment(PATH=str(python.parent), **hidden)
    installed(ROOT, python, env, "--no-deps", "--force-reinstall")
    inspect(python, env, native=False)
    command = [str(python), "-m", "regard", "look", "I love you"]
    ran = subprocess.run(  # noqa: S603
        command, cwd=place, env=env, capture_output=True, encoding="utf-8", check=True
    )
    if ran.stderr.count(NOTE) != 1 or "我爱你" not in ran.stdout:
        sys.exit(f"expected one note that the {NOTE}, got {ran.stderr!r}")
    say("without a compiler the portable kernels are used, which is said once")


def main() -> None:
    """Install the wheel, look around, run every command; then the same without a compiler."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, help="what python -m build made")
    wheel = parser.parse_args().wheel.resolve()
    if not wheel.is_file():
        sys.exit(f"no wheel {wheel}; build one: python -m build")
    with tempfile.TemporaryDirectory(prefix="regard-smoke-") as folder:
        home, place = Path(folder) / "env", Path(folder) / "work"
        place.mkdir()
        venv.create(home, with_pip=True)
        python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
        env = environment()
        installed(wheel, python, env, "-c", str(ROOT / "constraints.txt"))
        inspect(python, env, native="-none-any" not in wheel.name)
        failed = try_all(python, place, env)
        if failed:
            sys.exit(f"{failed} commands failed")
        without_compiler(python, place)


if __name__ == "__main__":
    main()
