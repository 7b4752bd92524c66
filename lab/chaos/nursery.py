"""Builds the processes of a run under the virtual clock, each from what the one before it left on the disk."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from cloud.build import Cloud
from cloud.build import build as build_cloud
from cloud.checkpoint import About, Checkpoint, digest_of
from cloud.durable import Durable
from cloud.recovery import Memory, Recovered, recover
from cloud.results import write_beginning, write_end
from common.experiment import Experiment, edge_ids
from common.fleet import Profile
from common.node import CLOUD, Node, NodeId, Seconds
from common.privacy.calibration import Ask
from common.program import make_folder
from common.records import read
from common.tensors import Layout
from edge.answer_file import AnswerFile
from edge.build import build as build_edge
from edge.ledger_file import LedgerFile
from lab.chaos.skewed import Skewed
from lab.folder import RunFolder
from lab.pages import Pages
from lab.simulator import Simulator
from lab.virtual import BROKER


@dataclass
class Nursery:
    """One run: its folder, and where rows go, which have to be on the disk at once."""

    experiment: Experiment
    run: str
    folder: RunFolder
    pages: Pages
    ask: Ask
    _boots: Counter[NodeId] = field(default_factory=Counter)
    _ledgers: dict[NodeId, LedgerFile] = field(default_factory=dict)
    _answers: dict[NodeId, AnswerFile] = field(default_factory=dict)
    _cloud: Cloud | None = None
    _durable: Durable | None = None

    def __post_init__(self) -> None:
        transcript = self.folder.transcript if self.experiment.transcript else None
        self._checkpoint = Checkpoint(make_folder(self.folder.records.parent), transcript)
        names = edge_ids(self.experiment.data.edges)
        fleet = self.experiment.fleet
        self.profiles: dict[NodeId, Profile] = {
            name: fleet.profile(index, len(names)) for index, name in enumerate(names)
        }

    def populate(self) -> Simulator:
        """Everybody, started."""
        boot = self._boot(CLOUD)
        write_beginning(self.folder.path, self.experiment, self.run, boot, BROKER)
        self._checkpoint.begin(About(self.run, digest_of(self.experiment), boot))
        cloud = build_cloud(self.experiment, boot)
        self.simulator = Simulator(self.experiment.seed, self.pages.keep, cloud.evaluate)
        self._start(Recovered(cloud, Memory(), 0), 0.0)
        for name in self.profiles:
            self.bear(name, 0.0)
        return self.simulator

    def bear(self, who: NodeId, skew: Seconds) -> None:
        """Another process of a node, whose clock is off by so many seconds."""
        if who == CLOUD:
            self._bear_cloud(skew)
        else:
            self._bear_edge(who, skew)

    def close(self) -> None:
        """Lets go of all files, and writes the results."""
        for name in list(self._ledgers):
            self._let_go(name)
        if self._durable is not None and self._cloud is not None:
            self._durable.close()
            write_end(self.folder.path, self.experiment, self._cloud.node.tensors)
            if (halt := self._durable.halt) is not None:
                self._checkpoint.finish(halt.reason, halt.exit_code)

    def _bear_cloud(self, skew: Seconds) -> None:
        assert self._durable is not None
        self._durable.close()
        about = self._checkpoint.about
        assert about is not None
        make = partial(build_cloud, self.experiment, self._boot(CLOUD), about.lineage)
        recovered = recover(self._checkpoint, make, self.folder.records)
        for time, row in recovered.rows:
            self.pages.keep(CLOUD, row.kind, row.row, time)
        self._start(recovered, skew)

    def _start(self, recovered: Recovered, skew: Seconds) -> None:
        now = self.simulator.now + skew
        self._cloud = recovered.cloud
        self._durable = Durable(recovered, self._checkpoint, self.folder.records, now)
        self.simulator.add(CLOUD, _with(skew, self._durable))

    def _bear_edge(self, name: NodeId, skew: Seconds) -> None:
        self._let_go(name)
        own, boot = make_folder(self.folder.node(name)), self._boot(name)
        records = own / "records.jsonl"
        shown = sum(row.get("kind") == "release" for row in read(records)) if records.exists() else 0
        path = self.folder.path / "ledgers" / f"{name}.db"
        ledger = self._ledgers[name] = LedgerFile(path, self.run, boot, "reproducible", shown=shown)

        def keeper(layout: Layout) -> AnswerFile:
            owner = f"{self.run} {name} {self.experiment.digest()}"
            self._answers[name] = AnswerFile(own / "answer.bin", owner, layout)
            return self._answers[name]

        edge = build_edge(self.experiment, name, boot, ledger.open, ask=self.ask, keeper=keeper)
        self.simulator.add(name, _with(skew, edge.node), self.profiles[name], edge.work)

    def _let_go(self, name: NodeId) -> None:
        """Closes the files of an edge's process, if there was one."""
        if name in self._ledgers:
            self._ledgers.pop(name).close()
        if name in self._answers:
            self._answers.pop(name).close()

    def _boot(self, who: NodeId) -> str:
        self._boots[who] += 1
        return f"simulated-{who}-{self._boots[who]}"


def _with(skew: Seconds, node: Node) -> Node:
    return Skewed(node, skew) if skew else node
