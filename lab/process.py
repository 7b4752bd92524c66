"""One node as a child process: started under a ward, its output in a file, stopped politely and then for good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common.errors import DeployError


@dataclass(frozen=True)
class Child:
    """A running node. What it prints goes to `log`; its standard input is the lifeline that `lab.ward` watches."""

    name: str
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def exit_code(self) -> int | None:
        """None while it runs; 128 + n for one killed by signal n, as in a shell."""
        code = self.process.poll()
        return 128 - code if code is not None and code < 0 else code

    def terminate(self) -> None:
        """Asks it to finish in good order."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it, and whatever it has started, at once."""
        self._signal(signal.SIGKILL)

    def close(self) -> None:
        """Waits until it has ended, and lets go of its lifeline."""
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def last_words(self) -> list[str]:
        """Why it ended (`last_words`)."""
        return last_words(self.log)

    def _signal(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)


def start(name: str, module: str, arguments: Sequence[str], log: Path) -> Child:
    """Starts `python -m <module> <arguments>` in a process group of its own, so that Ctrl-C reaches only its parent.

    Raises:
        DeployError: the process or its log cannot be created.
    """
    command = [sys.executable, "-P", "-m", "lab.ward", module, *arguments]
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and modules, no shell
                command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
    except OSError as error:
        raise DeployError(f"process {name}: {error}: expected to start {module} with output to {log}") from error
    return Child(name, log, process)


def last_words(log: Path) -> list[str]:
    """Why somebody ended: the last errors if any were logged, else the end of what was printed."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16_384))
            lines = file.read().decode(errors="replace").rstrip().splitlines()[-20:]
    except OSError:
        return []
    errors = [line for line in lines if " ERROR " in line]
    has_traceback = any(line.startswith("Traceback") for line in lines)
    return errors[-3:] if errors and not has_traceback else lines
