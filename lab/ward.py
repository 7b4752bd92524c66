"""Runs a module as a child process that cannot outlive its parent.

`python -m lab.ward cloud --experiment FILE ...` is `python -m cloud --experiment FILE ...` with one addition:
standard input is a pipe whose other end the parent holds and never writes to. Its end of file means that the
parent is gone, however it died; the child then asks itself to terminate and, if that takes too long, exits.
This works on every system; Linux's parent-death signal does not, and is lost on a change of user.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time

GRACE = 4.0
"""Seconds from the polite request to the hard exit."""
EXIT_ABANDONED = 137


def _watch(descriptor: int) -> None:
    while os.read(descriptor, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(EXIT_ABANDONED)


def main() -> None:
    """Starts the watch and becomes the module named by the first argument."""
    _, module, *arguments = sys.argv
    descriptor = os.dup(0)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    threading.Thread(target=_watch, args=(descriptor,), name="ward", daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
