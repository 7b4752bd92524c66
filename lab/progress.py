"""How far a run is, shown while it runs: a live panel on a terminal, plain lines of text elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from common.experiment import Experiment
from lab.history import History
from lab.rounding import at_most

PLAIN_PERIOD = 2.0
"""Seconds between two plain lines."""


@dataclass(frozen=True)
class Status:
    """A run at one moment. `share` in 0..1 and `left` (seconds) refer to the nearer end of the stop rule."""

    updates: int
    target: int | None
    seconds: float
    stage: int | None
    accuracy: float | None
    privacy: str
    online: int
    edges: int
    pace: float | None
    share: float
    left: float | None

    def line(self) -> str:
        """The whole status in one line."""
        parts = [f"updates {self._updates()}", f"edges {self.online}/{self.edges}"]
        if self.stage is not None:
            parts.append(f"stage {self.stage}")
        if self.accuracy is not None:
            parts.append(f"accuracy {self.accuracy:.3f}")
        parts.append(self.privacy)
        if self.pace is not None:
            parts.append(f"{self.pace:,.0f} updates/s")
        if self.left is not None:
            parts.append(f"{_clock(self.left)} left")
        return " | ".join(parts)

    def _updates(self) -> str:
        return f"{self.updates:,}" if self.target is None else f"{self.updates:,}/{self.target:,}"

    def cells(self) -> list[tuple[str, str]]:
        """Name and value of each number of the live panel."""
        return [
            ("updates", self._updates()),
            ("edges online", f"{self.online} of {self.edges}"),
            ("stage", "-" if self.stage is None else str(self.stage)),
            ("accuracy", "-" if self.accuracy is None else f"{self.accuracy:.3f}"),
            ("privacy", self.privacy),
            ("updates/s", "-" if self.pace is None else f"{self.pace:,.0f}"),
            ("time left", "-" if self.left is None else _clock(self.left)),
        ]


def status_of(history: History, experiment: Experiment, now: float) -> Status:
    """Reads the status off the history; `now` in unix seconds."""
    stop = experiment.stop
    seconds = 0.0 if history.started is None else max(0.0, now - history.started)
    pace = history.pace(now) if history.reason is None else None
    shares, lefts = [0.0], []
    if stop.updates is not None:
        shares.append(history.updates / stop.updates)
        if pace:
            lefts.append((stop.updates - history.updates) / pace)
    if stop.seconds is not None:
        shares.append(seconds / stop.seconds)
        lefts.append(stop.seconds - seconds)
    return Status(
        updates=history.updates,
        target=stop.updates,
        seconds=seconds,
        stage=history.stages[-1].get("stage") if history.stages else None,
        accuracy=history.scores[-1].accuracy if history.scores else None,
        privacy=_privacy(history, experiment),
        online=history.online,
        edges=experiment.data.edges,
        pace=pace,
        share=min(1.0, max(shares)),
        left=max(0.0, min(lefts)) if lefts and history.reason is None else None,
    )


def _privacy(history: History, experiment: Experiment) -> str:
    """The largest total that an edge has reported, or why there is none."""
    if experiment.privacy.mechanism == "none":
        return "no privacy"
    if experiment.algorithm.rigour == "paper":
        return "dp: not established"
    known = [edge.epsilon for edge in history.edges.values() if edge.epsilon is not None]
    label = " (simulated DP)" if experiment.privacy.randomness == "reproducible" else ""
    return f"epsilon {at_most(max(known)):.3g} so far{label}" if known else "epsilon -"


def _clock(seconds: float) -> str:
    """Seconds as m:ss or h:mm:ss."""
    hours, rest = divmod(round(seconds), 3600)
    minutes, remainder = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{remainder:02d}" if hours else f"{minutes}:{remainder:02d}"


class Screen(Protocol):
    """Where progress is shown. A context: what it draws ends with it."""

    def __enter__(self) -> Screen: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, status: Status, now: float) -> None:
        """The newest status."""
        ...

    def say(self, text: str) -> None:
        """Something that happened, kept above the status."""
        ...


class LiveScreen:
    """A panel that redraws itself in place, for terminals."""

    def __init__(self, console: Console, title: str) -> None:
        self._title = title
        self._live = Live(console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveScreen:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, status: Status, now: float) -> None:
        """Redraws the panel."""
        grid = Table.grid(padding=(0, 3))
        cells = status.cells()
        grid.add_row(*[Text(name, style="dim") for name, _ in cells])
        grid.add_row(*[Text(value, style="bold") for _, value in cells])
        bar = Table.grid()  # a bar by itself does not end its line
        bar.add_row(ProgressBar(total=1.0, completed=status.share, width=78, complete_style="cyan"))
        self._live.update(Group(Text(self._title, style="cyan"), bar, grid))

    def say(self, text: str) -> None:
        """Prints above the panel."""
        self._live.console.print(Text(text))


class PlainScreen:
    """One line of text every now and then, for files and pipes; with `quiet`, only what happened."""

    def __init__(self, stream: TextIO, quiet: bool = False) -> None:
        self._stream = stream
        self._quiet = quiet
        self._next = 0.0

    def __enter__(self) -> PlainScreen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, status: Status, now: float) -> None:
        """Prints the status, unless the last one is fresh."""
        if not self._quiet and now >= self._next:
            self._next = now + PLAIN_PERIOD
            self.say(status.line())

    def say(self, text: str) -> None:
        """Prints a line at once."""
        print(text, file=self._stream, flush=True)


def screen_for(stream: TextIO, title: str, quiet: bool) -> Screen:
    """The screen that suits this stream."""
    if stream.isatty() and not quiet:
        return LiveScreen(Console(file=stream), title)
    return PlainScreen(stream, quiet)
