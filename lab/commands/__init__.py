"""The commands of `mapa`, one file each; a new one is a file and a line here.

Every file has HELP (one line), `add` (declares its arguments) and `run` (does it, and gives the exit code). What is
heavy is imported inside `run`, so that help comes at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from lab.commands import (
    attack,
    audit,
    bundle,
    certs,
    chaos,
    check,
    deploy,
    doctor,
    launch,
    ledger,
    privacy,
    replay,
    report,
    reproduce,
    resume,
    simulate,
    stack,
    sweep,
)


class Command(Protocol):
    """What a file of this folder is to the command line."""

    HELP: str

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Declares the arguments."""
        ...

    def run(self, arguments: argparse.Namespace) -> int:
        """Does it; the exit code."""
        ...


COMMANDS: Mapping[str, Command] = MappingProxyType(
    {
        "attack": attack,
        "audit": audit,
        "bundle": bundle,
        "certs": certs,
        "chaos": chaos,
        "check": check,
        "deploy": deploy,
        "doctor": doctor,
        "launch": launch,
        "ledger": ledger,
        "privacy": privacy,
        "replay": replay,
        "report": report,
        "reproduce": reproduce,
        "resume": resume,
        "simulate": simulate,
        "stack": stack,
        "sweep": sweep,
    }
)
