"""Commands that start further processes, such as torchrun: run to their end, or ended with all."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence


def run_with_children(
    command: Sequence[str], env: Mapping[str, str], timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run a command; if it takes too long, it ends with its children, and what it wrote is shown.

    subprocess.run ends the command alone. Children that hang keep its pipes open, and it would wait
    for them without end.
    """
    process = subprocess.Popen(
        command,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        raise AssertionError(f"still running after {timeout} s:\n{output}\n{errors}") from None
    return subprocess.CompletedProcess(command, process.returncode, output, errors)
