"""What the programs of cloud and edge have in common: arguments, log, signals, exit code.

Both take the same arguments, so that one list starts a whole federation. Only `__main__` reads the environment and
hands it over here.
"""

from __future__ import annotations

import argparse
import logging
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from common.access import Access, access_of, declare
from common.address import Address
from common.errors import ConfigError, Fault, FederationError, RecordError
from common.experiment import Experiment, load
from common.messages import Message
from common.mqtt import Shell
from common.node import Effect, Node, NodeId, Record, Seconds, Wake
from common.trust.enrolment import enrol

LOG = logging.getLogger(__name__)
EXIT_SIGNALLED = 128
"""Plus the signal's number: the exit code of a program that was asked to end."""
_RUN = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_PULSE: Seconds = 5.0
_FREQUENT = frozenset({"update", "release", "report", "local"})  # kinds of rows that would drown a log


@dataclass(frozen=True)
class Call:
    """How a program was called.

    `alive`: file that is touched as long as the node's loop turns. `ledger`: the folder of ledgers, `is_ledger_given`:
    by an argument, so that it is meant whatever the experiment says of the noise.
    """

    experiment: Experiment
    run: str
    broker: Address
    out: Path
    alive: Path | None
    edge: str | None
    ledger: Path | None = None
    is_ledger_given: bool = False
    access: Access = field(default_factory=Access)

    def address(self, name: NodeId) -> Address:
        """Where the broker is, and what `name` needs to get at it.

        Raises:
            ConfigError, TransportError: its files are missing or wrong, or it gets no certificate.
        """
        return self.access.secured(self.broker, name, enrol)


def parse(program: str, arguments: Sequence[str], environment: Mapping[str, str]) -> Call:
    """Reads the command line; what it leaves out comes from the environment, then from the experiment.

    Raises:
        ConfigError: a value is missing or wrong, here or in the experiment.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=f"Runs the {program} of one experiment.")
    add = parser.add_argument
    add("--experiment", type=Path, metavar="FILE", help="experiment file (or EXPERIMENT)")
    add("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help="change a value of the file")
    add("--broker", metavar="HOST[:PORT]", help="where the broker is (or MQTT_HOST, MQTT_PORT; or the experiment)")
    add("--run", metavar="ID", help="id of this run, never used before (or MAPA_RUN)")
    add("--out", type=Path, metavar="DIR", help="folder of this run (or OUT, in which it is the folder named ID)")
    add("--alive", type=Path, metavar="FILE", help="touched while the program works, for health checks (or ALIVE)")
    if program == "edge":
        add("--id", metavar="ID", help="such as edge-0001 (or EDGE_ID; or EDGE_INDEX or the container's name tell it)")
        add("--ledger", type=Path, metavar="DIR", help="folder of ledgers, kept from run to run (or LEDGER)")
        add("--index", type=int, metavar="I", help="1, 2, ...: the same as --id edge-0001, ...")
    declare(parser)
    given = parser.parse_args(arguments)
    file = given.experiment or _path(environment, "EXPERIMENT")
    if file is None:
        raise ConfigError(Fault("--experiment", None, "an experiment file (or set EXPERIMENT)"))
    experiment = load(file, given.overrides)
    run = given.run or environment.get("MAPA_RUN")
    if run is None or not _RUN.fullmatch(run):
        raise ConfigError(Fault("--run", run, f"an id as in {_RUN.pattern} (or set MAPA_RUN)"))
    root = _path(environment, "OUT")
    out = given.out or (root / run if root is not None else None)
    if out is None:
        raise ConfigError(Fault("--out", None, "a folder (or set OUT)"))
    access = access_of(given, environment)
    broker = _broker(given.broker, environment, experiment, access.port)
    edge = None
    if program == "edge":
        edge = given.id or (f"edge-{given.index:04d}" if given.index is not None else None)
    alive, ledger = given.alive or _path(environment, "ALIVE"), getattr(given, "ledger", None)
    kept = ledger or _path(environment, "LEDGER")
    return Call(experiment, run, broker, out, alive, edge, kept, ledger is not None, access)


def _path(environment: Mapping[str, str], name: str) -> Path | None:
    text = environment.get(name)
    return Path(text) if text else None


def _broker(given: str | None, environment: Mapping[str, str], experiment: Experiment, port: int) -> Address:
    """The address of the broker; `port`: where nobody says another."""
    if given is not None:
        return Address.parse(given, port)
    if host := environment.get("MQTT_HOST"):
        return Address.parse(f"{host}:{environment.get('MQTT_PORT') or port}")
    if experiment.broker.host is not None:
        return Address(experiment.broker.host, experiment.broker.port or port)
    raise ConfigError(Fault("--broker", None, "host or host:port (or set MQTT_HOST, or broker.host in the experiment)"))


def guard(body: Callable[[], int]) -> int:
    """Runs a program's body; an error of ours becomes lines in the log and its exit code."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", force=True
    )
    try:
        return body()
    except ConfigError as error:
        for fault in error.faults:
            LOG.error("experiment %s", fault)  # noqa: TRY400 - a fault of the file, not of the code
        return error.exit_code
    except FederationError as error:
        LOG.error("%s %s", type(error).__name__, error)  # noqa: TRY400
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_SIGNALLED + signal.SIGINT


def make_folder(path: Path) -> Path:
    """The folder, made if need be.

    Raises:
        RecordError: it cannot be.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"folder: {path}: {error.strerror}: expected to make it") from error
    return path


def touch(path: Path | None) -> None:
    """Gives the file the present time, if there is one.

    Raises:
        RecordError: it cannot be written.
    """
    if path is None:
        return
    try:
        path.touch()
    except OSError as error:
        raise RecordError(f"alive: {path}: {error.strerror}: expected a file that can be touched") from error


@dataclass(frozen=True)
class Attended:
    """A node somebody looks after: its rare records are log lines too, and a file tells that its loop turns."""

    node: Node
    alive: Path | None

    def start(self, now: Seconds) -> Sequence[Effect]:
        """Starts the node."""
        touch(self.alive)
        return [*self._told(self.node.start(now)), Wake("pulse", _PULSE)]

    def on_message(self, sender: NodeId, message: Message, now: Seconds) -> Sequence[Effect]:
        """What the node does."""
        return self._told(self.node.on_message(sender, message, now))

    def on_wake(self, name: str, now: Seconds) -> Sequence[Effect]:
        """Touches the file if it is time, else what the node does."""
        if name != "pulse":
            return self._told(self.node.on_wake(name, now))
        touch(self.alive)
        return [Wake("pulse", _PULSE)]

    def _told(self, effects: Sequence[Effect]) -> Sequence[Effect]:
        for effect in effects:
            if isinstance(effect, Record) and effect.kind not in _FREQUENT:
                LOG.info("%s %s", effect.kind, " ".join(f"{key}={value!r}" for key, value in effect.row.items()))
        return effects


def serve(shell: Shell) -> int:
    """Runs a shell to its end. The first SIGINT or SIGTERM asks it to end in good order, the second ends it at once.

    Returns:
        The node's exit code, or 128 and the number of the signal that ended it.
    """
    received: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            raise KeyboardInterrupt
        shell.interrupt()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    code = shell.run()
    return EXIT_SIGNALLED + received[0] if received else code
