"""Runs an experiment under a virtual clock: the same nodes, records and results as on a broker, in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from cloud.build import build as build_cloud
from cloud.results import write_beginning, write_end
from cloud.transcript import Transcribed
from common.experiment import Experiment, edge_ids
from common.node import CLOUD, INTERRUPTED, Node
from common.privacy.calibration import Ask, fresh
from edge.build import build_all
from lab.folder import RunFolder
from lab.garbage import settled
from lab.pages import Pages
from lab.simulator import Simulator

BROKER = "virtual clock"
SECURE = "privacy.randomness: secure: a simulation draws from the seed, so that it can be repeated: simulated DP"
_STRIDE = 200  # events between two looks at the real clock
Pause = Callable[[float, float], int]
"""Called with real and virtual time now and then; gives how often a person has asked for the end."""


@dataclass(frozen=True)
class Outcome:
    """`code`: of the cloud, as on a broker; `messages`: how many were carried; `clock`: virtual seconds."""

    code: int
    messages: int
    clock: float


def run_virtually(
    experiment: Experiment,
    folder: RunFolder,
    run: str,
    *,
    boots: Mapping[str, str] | None = None,
    look: Callable[[Mapping[str, object]], None] | None = None,
    pause: Pause | None = None,
    ask: Ask = fresh,
) -> Outcome:
    """Runs a checked experiment into a new run folder.

    Args:
        experiment: in order (`lab.check`).
        folder: created already, empty.
        run: its id.
        boots: boot ids of the nodes, to draw what these processes of a run on a broker drew; none: from the ids.
        look: sees every row of the cloud's records.
        pause: asked now and then whether to go on. Once: the run ends in good order; twice: it waits for no edge.
        ask: remembers what was calibrated.

    Raises:
        DataError: the data set is missing.
        RecordError: results cannot be written.
    """
    experiment = repeatable(experiment)
    names = edge_ids(experiment.data.edges)
    named = {name: (boots or {}).get(name, f"simulated-{name}") for name in (CLOUD, *names)}
    cloud, edges = build_cloud(experiment, named[CLOUD]), list(build_all(experiment, named, ask))
    folder.begin()
    write_beginning(folder.path, experiment, run, named[CLOUD], BROKER)
    with ExitStack() as closing:
        closing.callback(lambda: write_end(folder.path, experiment, cloud.node.tensors))
        pages = Pages(folder.path, run, look)
        closing.callback(pages.close)
        simulator = Simulator(experiment.seed, pages.keep, cloud.evaluate)
        node: Node = cloud.node
        if experiment.transcript:
            transcript = Transcribed(node, folder.transcript)
            closing.callback(transcript.close)
            node = transcript
        simulator.add(CLOUD, node)
        for index, (name, edge) in enumerate(edges):
            simulator.add(name, edge.node, experiment.fleet.profile(index, len(names)), edge.work)
        with settled():
            _follow(simulator, pause)
    halt = simulator.halted(CLOUD)
    return Outcome(1 if halt is None else halt.exit_code, simulator.post.messages, simulator.now)


def repeatable(experiment: Experiment) -> Experiment:
    """The experiment with noise from its seed."""
    privacy = experiment.privacy.model_copy(update={"randomness": "reproducible"})
    return experiment.model_copy(update={"privacy": privacy})


def cautions_of(experiment: Experiment) -> tuple[str, ...]:
    """What is different from the same run on a broker."""
    privacy = experiment.privacy
    return (SECURE,) if privacy.randomness == "secure" and privacy.mechanism != "none" else ()


def _follow(simulator: Simulator, pause: Pause | None) -> None:
    passed_on = 0
    while not simulator.run(_STRIDE):
        wishes = 0 if pause is None else pause(time.time(), simulator.now)
        for _ in range(min(wishes, 2) - passed_on):
            simulator.wake(CLOUD, INTERRUPTED)
            passed_on += 1
