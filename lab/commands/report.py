"""`mapa report DIR ...`: pictures and one page of a run, or of several to compare."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "draw one run, or compare several"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="run folder")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: <DIR>/report, or report)")


def run(arguments: argparse.Namespace) -> int:
    """Draws; tells where."""
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
