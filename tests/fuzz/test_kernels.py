"""The kernel campaign, in short: some of its cases, and that it names a case that crashes."""

import signal

import pytest

from fuzz import kernels

CASES = 60


def test_some_cases_of_every_kernel_agree_with_the_reference() -> None:
    for number in range(CASES):
        kernels.run_case(0, number)
    assert {kernels._name(0, number) for number in range(CASES)} == {
        "attention",
        "pair_sums",
        "matvec",
        "int8",
        "topk",
    }


@pytest.mark.parametrize("ending", [-signal.SIGKILL, 3])
def test_a_process_that_ends_badly_is_named_by_its_case(
    monkeypatch: pytest.MonkeyPatch, ending: int
) -> None:
    script = 'print("{\\"case\\": 7}", flush=True); '
    script += f"import os; os.kill(os.getpid(), {-ending})" if ending < 0 else f"exit({ending})"
    real = kernels.subprocess.Popen
    monkeypatch.setattr(
        kernels.subprocess,
        "Popen",
        lambda command, **options: real([command[0], "-c", script], **options),
    )
    [(number, kind, detail)] = kernels._run_in_process(1, 5, 9)
    assert (number, kind) == (7, "signal")
    assert detail.startswith("SIGKILL -9" if ending < 0 else "exit 3")


def test_a_wrong_number_is_reported_with_its_case(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [(0, "", ""), (1, "wrong number", "lse: 1, expected 2")]
    monkeypatch.setattr(kernels, "_run_in_process", lambda *_: iter(events))
    reports: list[tuple[str, str]] = []
    assert kernels.run(1, 2, lambda name, detail: reports.append((name, detail))) == 2
    [(name, detail)] = reports
    assert name.startswith("wrong number: ")
    assert name.endswith(", case 1")
    assert detail == "lse: 1, expected 2"


def test_a_changed_number_does_not_pass() -> None:
    from fuzz.kernel_checks import WrongNumberError, check_observation
    from fuzz.kernel_reference import attention_reference
    from regard.kernels.observe import observe

    case = next(
        made
        for number in range(100)
        if (made := kernels.attention_case(kernels._chance(5, number))).query.numel() > 100
        and not attention_reference(made).unknown.any()
    )
    seen = observe(case.query, case.key, case.value, padded=case.padded, **case.terms)
    truth = attention_reference(case)
    check_observation(case, seen, truth)
    seen.statistics.on_first[0, 0, 0] += 0.01
    with pytest.raises(WrongNumberError, match="on_first"):
        check_observation(case, seen, truth)
