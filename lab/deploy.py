"""Runs an experiment with the cloud here and the edges in containers on Docker hosts, until the stop rule.

Each host gets the image if it lacks it, the experiment, and the credentials of its own edges, no other's. A host that
cannot be reached is left out, and the others go on; the cloud waits `quorum_patience` for its edges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TextIO

from common.access import Access
from common.address import Address
from common.errors import ConfigError, DeployError, Fault
from common.experiment import Experiment, edge_ids
from common.node import CLOUD
from lab.check import check
from lab.closing import print_closing
from lab.credentials import EXPERIMENT, credentials, edge_arguments
from lab.crew import Crew, Member
from lab.engine import Engine, Order
from lab.folder import RunFolder, read_run
from lab.hosts import Host, Hosts
from lab.image import Image
from lab.launch import Request, cloud, complete, run_id, store_experiment
from lab.progress import screen_for
from lab.reach import wait_for
from lab.remote import Remote
from lab.signals import Signals
from lab.watch import Watch

Say = Callable[[str], None]


def deploy(request: Request, hosts: Hosts, stream: TextIO) -> int:
    """Runs the experiment and gives its exit code: the cloud's, or 130 if a person stopped it.

    Raises:
        ConfigError, DataError: the experiment or the hosts file is wrong; nothing was started.
        TransportError: no broker.
        DeployError: no host can be used.
    """
    checked = check(request.file, request.overrides, request.ask)
    experiment = checked.experiment
    check_places(experiment, hosts)
    access = Access(is_plain=True) if hosts.certs is None else Access(folder=Path(hosts.certs))
    files = credentials(access.folder, [CLOUD, *hosts.edges])
    address = Address.parse(hosts.broker, access.port)
    for name in (CLOUD, *hosts.edges):
        access.secured(address, name)
    run = run_id(request, experiment)
    folder = RunFolder(request.out or Path("runs") / run)
    folder.create()
    screen = screen_for(stream, f"{experiment.name} ({run})", request.quiet)
    for caution in (*checked.cautions, *_missing(experiment, hosts)):
        screen.say(f"warning: {caution}")
    with Signals().listening() as signals, ExitStack() as stack:
        wait_for(address, screen.say, lambda: signals.count > 0)
        engines = connect(hosts, stack, screen.say)
        # Not earlier: what nothing came of can be tried again with the same folder.
        store_experiment(folder, experiment)
        arguments = ["--experiment", str(folder.experiment), "--broker", str(address), "--run", run]
        arguments += ["--out", str(folder.path), *access.arguments()]
        starts: list[Callable[[], Member | None]] = [cloud(folder, arguments)]
        laid = {EXPERIMENT: folder.experiment.read_bytes()}
        for edge, engine in engines.items():
            words = edge_arguments(experiment, str(address), run, edge, has_certs=bool(files[edge]))
            order = Order(run, edge, hosts.image, {**laid, **files[edge]}, tuple(words))
            starts.append(partial(_start, engine, order, folder.node(edge), screen.say))
        with Crew(starts) as crew, screen:
            if not crew.edges:
                raise DeployError("edges: none could be started: expected one at least")
            ending = Watch(crew, folder, experiment, screen, signals).follow()
    if ending.is_interrupted or folder.records.is_file():
        complete(folder, ending)
        print_closing(read_run(folder.path), stream)
    return ending.code


def check_places(experiment: Experiment, hosts: Hosts) -> None:
    """ConfigError if the hosts are to have edges that the experiment lacks, or data where they cannot find them."""
    known = edge_ids(experiment.data.edges)
    faults = [
        Fault("hosts.edges", edge, f"one of {known[0]} to {known[-1]}") for edge in hosts.edges if edge not in known
    ]
    root = experiment.data.root
    if root is not None and Path(root).is_absolute():
        faults.append(Fault("data.root", root, "a folder below data/, where each host's own `data` is for its edges"))
    if faults:
        raise ConfigError(faults)


def connect(hosts: Hosts, stack: ExitStack, say: Say) -> Mapping[str, Engine]:
    """The engines of all hosts that can be used, by edge, for as long as the stack lasts; the image is on each.

    Raises:
        DeployError: none can.
    """
    local = _local(hosts.image, say)
    with ThreadPoolExecutor(len(hosts.hosts)) as pool:
        attempts = [(host, pool.submit(_ready, host, hosts.image, local, stack, say)) for host in hosts.hosts]
    engines: dict[str, Engine] = {}
    errors: list[DeployError] = []
    for host, attempt in attempts:
        try:
            engine = attempt.result()
        except DeployError as error:
            errors.append(error)
            say(f"warning: left out, with {', '.join(host.edges)}: {error}")
        else:
            engines |= dict.fromkeys(host.edges, engine)
    if not engines:
        raise errors[0]
    return engines


def _ready(host: Host, image: str, local: Image | None, stack: ExitStack, say: Say) -> Engine:
    engine = stack.enter_context(Engine(host))
    if engine.bring(image, local):
        say(f"host {host.name}: image {image} sent")
    return engine


def _local(name: str, say: Say) -> Image | None:
    """The image of this machine; None if there is none."""
    try:
        return Image.find(name)
    except DeployError as error:
        say(f"warning: {error}; hosts use the one that they have")
        return None


def _missing(experiment: Experiment, hosts: Hosts) -> list[str]:
    """Edges that no host has."""
    absent = [edge for edge in edge_ids(experiment.data.edges) if edge not in hosts.edges]
    return (
        [f"on no host: {', '.join(absent)}: the run waits for them, unless they come from elsewhere"] if absent else []
    )


def _start(engine: Engine, order: Order, folder: Path, say: Say) -> Member | None:
    try:
        return Remote(engine, order, folder, say)
    except DeployError as error:
        say(f"warning: {order.edge}: left out: {error}")
        return None


def remove(hosts: Hosts, run: str | None, say: Say) -> int:
    """Removes what runs have left on the hosts (ledgers and records stay); the exit code.

    Args:
        hosts: where.
        run: of this run; None: of all.
        say: tells what was removed.
    """
    code = 0
    for host in hosts.hosts:
        try:
            with Engine(host) as engine:
                found = engine.remove(run)
        except DeployError as error:
            say(f"warning: {error}")
            code = error.exit_code
        else:
            say(f"host {host.name}: {', '.join(found) or 'nothing to remove'}")
    return code
