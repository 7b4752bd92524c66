"""Runs an experiment on this machine: a broker, a cloud and its edges as processes, until the stop rule."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TextIO

import yaml

from common.access import Access
from common.address import Address
from common.broker import choose
from common.data import absent
from common.errors import ConfigError, DataError, Fault, RecordError
from common.experiment import Experiment, Partition, edge_ids
from common.node import CLOUD
from common.privacy.calibration import Ask, fresh
from lab.check import check
from lab.closing import print_closing
from lab.crew import Crew, Member
from lab.folder import RunFolder, read_run
from lab.process import start
from lab.progress import Screen, screen_for
from lab.reach import wait_for
from lab.signals import Signals
from lab.watch import Ending, Watch

LEDGERS = Path("ledgers")
"""Where ledgers are by default, in a folder for each way of dealing data to edges."""
_DEALS_BY: Mapping[str, tuple[str, ...]] = {"dirichlet": ("alpha", "minimum"), "shards": ("shards_per_edge",)}
"""What each way of dealing records reads, besides the number of edges and the seed."""
RUN_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


@dataclass(frozen=True)
class Request:
    """What a person asked for on the command line."""

    file: Path
    overrides: tuple[str, ...] = ()
    broker: str | None = None
    out: Path | None = None
    run: str | None = None
    quiet: bool = False
    ledger: Path | None = None
    access: Access = field(default_factory=Access)
    ask: Ask = fresh


@dataclass(frozen=True)
class Start:
    """How a run was started, for whoever goes on with it: its id, the broker (none: one of our own), the ledgers."""

    run: str
    broker: str | None
    ledger: str | None


def launch(request: Request, stream: TextIO) -> int:
    """Runs the experiment and gives its exit code: the cloud's, or 130 if a person stopped it.

    Raises:
        ConfigError, DataError: the experiment cannot run; nothing was started.
        TransportError: no broker.
        DeployError, RecordError: a process or the run folder failed.
    """
    checked = check(request.file, request.overrides, request.ask)
    experiment = checked.experiment
    check_presence(experiment)
    address = address_of(request.broker, request.access, experiment)
    run = run_id(request, experiment)
    folder = RunFolder(request.out or Path("runs") / run)
    folder.create()
    store_experiment(folder, experiment)
    begun = Start(run, address, _ledger(request, experiment))
    _store(folder.launch, json.dumps(asdict(begun), indent=2) + "\n")
    screen = screen_for(stream, f"{experiment.name} ({run})", request.quiet)
    for caution in checked.cautions:
        screen.say(f"warning: {caution}")
    return carry_out(folder, experiment, begun, request.access, screen=screen, stream=stream)


def carry_out(
    folder: RunFolder, experiment: Experiment, begun: Start, access: Access, *, screen: Screen, stream: TextIO
) -> int:
    """Starts all processes of a run, follows it to its end, and says how it went; its exit code.

    Raises:
        TransportError: no broker.
        DeployError, RecordError: a process or the run folder failed.
    """
    with Signals().listening() as signals, choose(begun.broker, folder.path / "broker", screen.say) as broker:
        wait_for(broker.address, screen.say, lambda: signals.count > 0)
        arguments = ["--experiment", str(folder.experiment), "--broker", str(broker.address)]
        arguments += ["--run", begun.run, "--out", str(folder.path)]
        arguments += ["--plain"] if begun.broker is None else access.arguments()  # our own broker has no TLS
        if begun.ledger is not None:
            screen.say(f"ledgers: {begun.ledger} (the edges' counts go on there from run to run)")
        own = [*arguments, *(() if begun.ledger is None else ("--ledger", begun.ledger))]
        starts = [cloud(folder, arguments), *(_edge(folder, name, own) for name in edge_ids(experiment.data.edges))]
        with Crew(starts) as crew, screen:
            ending = Watch(crew, folder, experiment, screen, signals).follow()
    if ending.is_interrupted or folder.records.is_file():
        complete(folder, ending)
        print_closing(read_run(folder.path), stream)
    return ending.code


def store_experiment(folder: RunFolder, experiment: Experiment) -> None:
    """Writes it with every default and override, as cloud and edges will read it."""
    _store(folder.experiment, yaml.safe_dump(experiment.model_dump(mode="json"), sort_keys=False))


def cloud(folder: RunFolder, arguments: Sequence[str]) -> Callable[[], Member]:
    """What starts the cloud as a process."""
    return partial(start, "cloud", "cloud", arguments, folder.log("cloud"))


def _edge(folder: RunFolder, name: str, arguments: Sequence[str]) -> Callable[[], Member]:
    return partial(start, name, "edge", [*arguments, "--id", name], folder.log(name))


def check_presence(experiment: Experiment) -> None:
    """DataError unless all edges can run here: where every edge has a file of its own, some may be on other hosts."""
    if missing := absent(experiment.data):
        raise DataError(f"data.root: {experiment.data.root}: without {missing}: expected all, to run here")


def run_id(request: Request, experiment: Experiment) -> str:
    """The id that was asked for, or name and time."""
    run = request.run or f"{experiment.name}-{datetime.now():%Y%m%d-%H%M%S}"
    if not RUN_ID.fullmatch(run):
        raise ConfigError(Fault("--run", run, "up to 64 of a-z, 0-9 and -, such as demo-20250101"))
    return run


def address_of(text: str | None, access: Access, experiment: Experiment) -> str | None:
    """The broker that was asked for: by the command line, else by the file, else none.

    Raises:
        ConfigError, TransportError: some node has nothing to get at it with.
    """
    if text is None and experiment.broker.host is not None:
        text = f"{experiment.broker.host}:{experiment.broker.port or access.port}"
    if text is None:
        return None
    address = Address.parse(text, access.port)
    for name in (CLOUD, *edge_ids(experiment.data.edges)):
        access.secured(address, name)
    return str(address)


def _ledger(request: Request, experiment: Experiment) -> str | None:
    """Where the edges' ledgers are; none if these belong to the run, as in a simulation of privacy."""
    if request.ledger is None and experiment.privacy.randomness != "secure":
        return None
    folder = request.ledger if request.ledger is not None else LEDGERS / holders_of(experiment)
    return str(folder.absolute())


def holders_of(experiment: Experiment) -> str:
    """A name for the edges and their records: the same as long as the same data are dealt in the same way.

    So it must not depend on what has no part in the deal, or a count would begin anew on the same records.
    """
    data, partition = experiment.data, experiment.data.partition
    if data.edges == 1:  # which has all records, however they are dealt
        partition = Partition()
    used = {name: getattr(partition, name) for name in ("kind", *_DEALS_BY.get(partition.kind, ()))}
    dealt = data.model_dump(mode="json", exclude={"root", "download"})
    dealt |= {"partition": Partition(**used).model_dump(mode="json"), "seed": experiment.seed}
    if partition.kind == "own":  # each edge has its records by itself
        dealt |= {"edges": None, "seed": None}
    elif data.edges == 1:
        dealt |= {"seed": None}
    mark = hashlib.sha256(json.dumps(dealt, sort_keys=True).encode()).hexdigest()[:8]
    return f"{experiment.data.name}-{mark}"


def _store(path: Path, text: str) -> None:
    """Writes a file as a whole: whoever reads it sees the old content or the new."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise RecordError(f"run folder: {path}: {error}: expected a folder that can be written") from error


def complete(folder: RunFolder, ending: Ending) -> None:
    """Makes the summary say how the run ended: a cloud which died wrote none, and does not know who stopped it.

    A summary that the cloud has written stays, but for state and reason of a run that did not come to its end.
    """
    run = read_run(folder.path)
    content = dict(run.summary)
    if not content:  # records too damaged to be summed up: the closing words say so
        return
    state = content.get("state")
    if ending.is_interrupted and state == "broken off":
        content |= {"state": "interrupted", "reason": "interrupted"}
    elif ending.fault is not None and state in ("broken off", "interrupted"):
        content |= {"state": "failed", "reason": ending.fault}
    if content != run.summary or not run.is_summed_up:
        _store(folder.summary, json.dumps(content, indent=2) + "\n")
