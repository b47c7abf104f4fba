import subprocess
import sys

import pytest

LOADED = "print('torch._dynamo' in sys.modules)"
MODEL = "m = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval(); x = torch.randn(1, 5, 8)"


def printed(*lines: str) -> list[str]:
    code = "\n".join(["import sys, torch, regard", MODEL, *lines])
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return ran.stdout.split()


def test_watching_loads_no_compiler_where_nothing_is_compiled():
    assert printed("with regard.watch(m): m(x, x, x)", LOADED) == ["False"]


def test_what_is_compiled_while_it_is_watched_is_seen_all_the_same():
    lines = [
        "own = torch.compile",
        "with regard.watch(m) as seen:",
        "    torch.compile(m)(x, x, x)",
        "    torch.compile(m)(x, x, x)",
        "print(len(seen[0]), torch.compile is own, torch._dynamo.eval_frame._stance.stance)",
    ]
    assert printed(*lines) == ["2", "True", "default"]


def test_a_compiler_that_is_there_is_told_to_wait():
    lines = [
        "import torch._dynamo",
        "from regard.tracing.fast_paths import run_compiled_eagerly",
        "with run_compiled_eagerly(): print(torch._dynamo.eval_frame._stance.stance)",
        "print(torch._dynamo.eval_frame._stance.stance)",
    ]
    assert printed(*lines) == ["force_eager", "default"]


def test_a_reference_that_outlives_the_block_compiles_as_usual():
    lines = [
        "with regard.watch(m): kept = torch.compile; m(x, x, x)",
        "print(type(kept(m)).__name__, torch._dynamo.eval_frame._stance.stance)",
    ]
    assert printed(*lines) == ["OptimizedModule", "default"]


@pytest.mark.parametrize("before", ["import torch._dynamo", ""])
def test_watchers_that_do_not_end_in_the_order_in_which_they_began_leave_nothing_behind(before):
    lines = [
        before,
        "from regard.tracing.fast_paths import run_compiled_eagerly",
        "own, first, second = torch.compile, run_compiled_eagerly(), run_compiled_eagerly()",
        "first.__enter__(), second.__enter__(), torch.compile(m)",
        "first.__exit__(None, None, None)",
        "print(torch._dynamo.eval_frame._stance.stance)",
        "second.__exit__(None, None, None)",
        "print(torch.compile is own, torch._dynamo.eval_frame._stance.stance)",
    ]
    assert printed(*lines) == ["force_eager", "True", "default"]
