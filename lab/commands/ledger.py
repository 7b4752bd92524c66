"""`mapa ledger show|new|verify DIR`: the privacy ledgers of edges, kept from run to run."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from common.errors import ConfigError, Fault, LedgerError
from lab.rounding import at_most

HELP = "show, check or renew the ledgers of edges"
_DELTA = 1e-5


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="what each ledger holds, and what it costs in total")
    show.add_argument("--json", action="store_true", help="as JSON, one object for each ledger")
    show.add_argument("--delta", type=float, default=_DELTA, metavar="D", help="where epsilon is stated (1e-5)")
    verify = actions.add_parser("verify", help="whether the ledgers are whole and unaltered")
    verify.add_argument(
        "--run", type=Path, metavar="FOLDER", help="and hold every release that this run's edges recorded"
    )
    new = actions.add_parser("new", help="close ledgers, so that the next run begins a new count")
    new.add_argument("--carry", action="store_true", help="keep the counts: for the same data, grown or corrected")
    new.add_argument("--yes", action="store_true", help="do it without asking")
    for action in (show, verify, new):
        action.add_argument("folder", type=Path, metavar="DIR", help="folder of ledgers")
        action.add_argument("--edge", metavar="E", help="of one edge only")


def run(arguments: argparse.Namespace) -> int:
    """Does it; 7 if a ledger cannot be relied on."""
    return {"show": _show, "verify": _verify, "new": _new}[arguments.action](arguments)


def _show(arguments: argparse.Namespace) -> int:
    from lab.ledger import describe, survey  # noqa: PLC0415 - numerical libraries

    if not 0 <= arguments.delta < 1:
        raise ConfigError(Fault("--delta", arguments.delta, "in [0, 1)"))
    found = [describe(finding, arguments.delta) for finding in survey(arguments.folder, arguments.edge)]
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        for one in found:
            print(_text_of(one))
    return LedgerError.exit_code if any("error" in one for one in found) else 0


def _text_of(one: dict[str, object]) -> str:
    """A ledger in a few lines."""
    if "error" in one:
        return f"{one['edge']}: cannot be relied on\n  {one['error']}"
    epsilon = one["epsilon"]
    total = f"{at_most(epsilon, 4):.4g}" if isinstance(epsilon, float) else "none"
    simulated = ", simulated: noise came from a seed" if one["simulated"] else ""
    lines = [
        f"{one['edge']}{' (closed)' if one['closed'] else ''}: {one['releases']} releases, epsilon {total} "
        f"at delta {one['dp_delta']:g} ({one['note']}{simulated})",
        f"  file     {one['file']}",
        f"  data     {one['data_set'] or 'not opened yet'}, {one['records']} records, fingerprint {one['fingerprint']}",
        f"  runs     {_counts(one['runs'])}; {one['processes']} processes",
    ]
    if one["carried"]:
        lines.append(f"  carried  {one['carried']} releases of the ledger before")
    events = one["events"]
    assert isinstance(events, list)
    lines += [f"  event    {item['count']} x {_counts(item['event'])}" for item in events]
    return "\n".join(lines)


def _counts(values: object) -> str:
    assert isinstance(values, dict)
    return ", ".join(f"{key} {value}" for key, value in values.items()) or "none"


def _verify(arguments: argparse.Namespace) -> int:
    from lab.ledger import compare, survey  # noqa: PLC0415

    faults = 0
    for finding in survey(arguments.folder, arguments.edge):
        print(f"{finding.name}: {finding.fault or f'sound, {finding.summary}'}")
        faults += bool(finding.fault)
    if arguments.run is not None:
        for edge, fault in compare(arguments.folder, arguments.run).items():
            if arguments.edge in (None, edge):
                print(f"{edge}: {fault or f'holds every release that {arguments.run} shows'}")
                faults += bool(fault)
    return LedgerError.exit_code if faults else 0


def _new(arguments: argparse.Namespace) -> int:
    from lab.ledger import CARRIED, MEANING, is_closed, renew, survey  # noqa: PLC0415

    chosen = [finding for finding in survey(arguments.folder, arguments.edge) if not is_closed(finding.path)]
    print("These ledgers will be closed:")
    for finding in chosen:
        print(f"  {finding.path}: {finding.fault or finding.summary}")
    print(CARRIED if arguments.carry else MEANING)
    if not arguments.yes and not _is_wanted():
        print("nothing was changed")
        return 0
    for finding in chosen:
        print(f"{finding.name}: closed as {renew(finding.path, carry=arguments.carry)}; a new ledger is begun")
    return 0


def _is_wanted() -> bool:
    if not sys.stdin.isatty():
        raise ConfigError(Fault("--yes", None, "given, where nobody can be asked"))
    return input("Type yes to go on: ").strip() == "yes"
