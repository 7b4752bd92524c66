"""The command line `mapa` (also `python -m lab`). Its commands are in `lab.commands`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from common.errors import ConfigError, FederationError
from lab.commands import COMMANDS
from lab.signals import interruptible

EXIT_INTERRUPTED = 130
SINGLE = frozenset({"chaos", "replay", "reproduce", "simulate", "sweep"})
"""Commands that compute with one thread, as cloud and edges do: the same sums in the same order, to the last bit."""
SETTINGS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
"""For the libraries of those commands, which read them when they are loaded; the last: Ray tells nobody of its use."""
DESCRIPTION = """\
A testbed for private federated learning over MQTT: one cloud, many edges, a real broker.

  mapa check  experiments/demo.yaml            is this experiment in order?
  mapa launch experiments/demo.yaml            run it here: broker, cloud and edges as processes
  mapa privacy account --mechanism gaussian --noise-multiplier 2 --releases 1000
                                               what do so many releases cost? (calibrate: how much noise for a total?)
  mapa report runs/demo-20250101-120000        pictures and one HTML page; several runs are compared
"""
EXIT_CODES = """\
exit codes: 0 done; 1 a bug or a broken privacy promise; 2 the experiment is wrong; 3 data missing;
4 broker unreachable; 5 a process could not be started; 6 results cannot be written; 7 a ledger cannot be relied on;
130 interrupted.
Set MAPA_DEBUG=1 to see where an error was raised.
"""


def _parser() -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="mapa", description=DESCRIPTION, epilog=EXIT_CODES, formatter_class=form)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, command in COMMANDS.items():
        text = (command.__doc__ or "").partition(": ")[2].strip()
        description = f"{text[:1].upper()}{text[1:]}"
        command.add(commands.add_parser(name, help=command.HELP, description=description, formatter_class=form))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code; every error raised on purpose becomes a clear text."""
    parser = _parser()
    parser.set_defaults(environment=os.environ)
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help()
        return 0
    if arguments.command in SINGLE:
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
    try:
        with interruptible():
            return COMMANDS[arguments.command].run(arguments)
    except FederationError as error:
        if os.environ.get("MAPA_DEBUG"):
            raise
        texts = [str(fault) for fault in error.faults] if isinstance(error, ConfigError) else [str(error)]
        for text in texts:
            print(f"error: {text}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
