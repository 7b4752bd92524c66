"""The command line `mapa` (also `python -m lab`): check an experiment, launch it, report on runs.

Nothing heavy is imported before a command is chosen, so that help comes at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from common.errors import ConfigError, FederationError

EXIT_INTERRUPTED = 130
DESCRIPTION = """\
A testbed for private federated learning over MQTT: one cloud, many edges, a real broker.

  mapa check  experiments/demo.yaml            is this experiment in order?
  mapa launch experiments/demo.yaml            run it here: broker, cloud and edges as processes
  mapa report runs/demo-20250101-120000        pictures and one HTML page; several runs are compared
"""
EXIT_CODES = """\
exit codes: 0 done; 1 a bug or a broken privacy promise; 2 the experiment is wrong; 3 data missing;
4 broker unreachable; 5 a process could not be started; 6 results cannot be written; 130 interrupted.
Set MAPA_DEBUG=1 to see where an error was raised.
"""
SET_HELP = "change a value of the file, e.g. --set stop.updates=200 (YAML; may be repeated)"


def _parser() -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="mapa", description=DESCRIPTION, epilog=EXIT_CODES, formatter_class=form)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    check = commands.add_parser("check", help="validate an experiment file", description="Validates an experiment.")
    _add_experiment(check)

    launch = commands.add_parser("launch", help="run an experiment on this machine", description="Runs an experiment.")
    _add_experiment(launch)
    launch.add_argument("--edges", type=int, metavar="N", help="number of edges (the same as --set data.edges=N)")
    launch.add_argument("--broker", metavar="HOST[:PORT]", help="a broker that runs already (default: start one here)")
    launch.add_argument("--out", type=Path, metavar="DIR", help="run folder (default: runs/<name>-<time>)")
    launch.add_argument("--run", metavar="ID", help="run id, [a-z0-9-] (default: <name>-<time>)")
    launch.add_argument("--quiet", action="store_true", help="no progress, only what matters")

    report = commands.add_parser("report", help="draw one run, or compare several", description="Reports on runs.")
    report.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="run folder")
    report.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: <DIR>/report, or report)")
    return parser


def _add_experiment(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="experiment file (YAML)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help=SET_HELP)


def _check(arguments: argparse.Namespace) -> int:
    from lab.check import check  # noqa: PLC0415 - imports models and data

    checked = check(arguments.file, arguments.overrides)
    for caution in checked.cautions:
        print(f"warning: {caution}", file=sys.stderr)
    print(checked.text())
    return 0


def _launch(arguments: argparse.Namespace) -> int:
    from lab.launch import Request, launch  # noqa: PLC0415 - imports models, data and the broker

    overrides = list(arguments.overrides)
    if arguments.edges is not None:
        overrides.append(f"data.edges={arguments.edges}")
    request = Request(
        file=arguments.file,
        overrides=tuple(overrides),
        broker=arguments.broker,
        out=arguments.out,
        run=arguments.run,
        quiet=arguments.quiet,
    )
    return launch(request, sys.stdout)


def _report(arguments: argparse.Namespace) -> int:
    from lab.report import write_report  # noqa: PLC0415 - imports matplotlib

    folders: list[Path] = arguments.folders
    out = arguments.out or (folders[0] / "report" if len(folders) == 1 else Path("report"))
    written = write_report(folders, out)
    for warning in written.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for picture in written.pictures:
        print(picture)
    print(f"report: {written.page}")
    return 0


COMMANDS = {"check": _check, "launch": _launch, "report": _report}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code; every error raised on purpose becomes a clear text."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help()
        return 0
    try:
        return COMMANDS[arguments.command](arguments)
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
