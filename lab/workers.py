"""Who does the work of a sweep: processes of this machine, or a Ray cluster. Results come as they are ready."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from common.errors import ConfigError, DeployError, Fault

Task = TypeVar("Task")
Result = TypeVar("Result")
LOCAL = "local"
"""The address that stands for a Ray of one's own."""
STORE = 100 * 2**20
"""Bytes of shared memory of a Ray of one's own: tasks and results are small."""
_KNOCK = 5.0
"""Seconds that the head of a cluster may take to accept a connection."""
_FAREWELL = 5.0
"""Seconds that a process has to tidy up once the one that it works for is gone."""


class Workers(Protocol):
    """Something that calls a function for many tasks, in any order."""

    def work(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[tuple[Task, Result]]:
        """Each task with what the function made of it; an error of the function ends the iteration."""
        ...


class Alone:
    """One task after the other, in this process."""

    def work(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[tuple[Task, Result]]:
        """As `Workers`."""
        return ((task, function(task)) for task in tasks)


class Processes:
    """So many processes on this machine; each loads the libraries once."""

    def __init__(self, count: int) -> None:
        self._count = count

    def work(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[tuple[Task, Result]]:
        """As `Workers`; once the iteration is given up, no task is begun, and those at work are broken off.

        Raises:
            DeployError: a process died.
        """
        context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks
        others = set(multiprocessing.active_children())
        # What a process had in files when it was broken off goes with this folder, once all of them are gone.
        with TemporaryDirectory(prefix="mapa-", ignore_cleanup_errors=True) as place:
            pool = ProcessPoolExecutor(self._count, mp_context=context, initializer=_settle, initargs=(place,))
            waiting: dict[Future[Result], Task] = {pool.submit(_call, function, task): task for task in tasks}
            try:
                while waiting:
                    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                        yield waiting.pop(future), future.result()
            except BrokenProcessPool as error:
                text = f"a process of {self._count} died: {error}: expected memory for all (--jobs)"
                raise DeployError(text) from error
            finally:
                if waiting:
                    for process in set(multiprocessing.active_children()) - others:
                        process.terminate()
                pool.shutdown(cancel_futures=True)


class Ray:
    """The nodes of a Ray cluster, which have this project installed and the data in the same place."""

    def __init__(self, address: str, count: int) -> None:
        """`address`: as `ray.init` takes it, such as `auto` or `ray://head:10001`; `local` starts one of `count` cores.

        Raises:
            ConfigError: Ray is not installed.
        """
        try:
            import ray  # noqa: PLC0415 - an extra: most users have one machine
        except ImportError as error:
            raise ConfigError(Fault("--ray", address, "Ray: pip install 'mapa-testbed[ray]'")) from error
        self._ray: Any = ray
        self._address, self._count = address, count

    def work(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[tuple[Task, Result]]:
        """As `Workers`; one core for each task.

        Raises:
            DeployError: no cluster answers, or it lost a task for good.
        """
        ray = self._ray
        with self._reached():
            try:
                remote = ray.remote(num_cpus=1, max_retries=3)(function)
                waiting = {remote.remote(task): task for task in tasks}
                while waiting:
                    ready, _ = ray.wait(list(waiting), num_returns=1)
                    for reference in ready:
                        yield waiting.pop(reference), ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayError as error:
                raise DeployError(f"Ray at {self._address}: {error}: expected it to do all tasks") from error

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """A connection to the cluster; one of one's own leaves nothing behind."""
        with ExitStack() as closing:
            own: dict[str, Any] = {}
            if self._address == LOCAL:
                place = closing.enter_context(TemporaryDirectory(prefix="mapa-ray-", ignore_cleanup_errors=True))
                own = {"num_cpus": self._count, "object_store_memory": STORE, "include_dashboard": False}
                own["_temp_dir"] = place
            else:
                self._knock()
            try:
                self._ray.init(address=self._address, log_to_driver=False, logging_level=logging.ERROR, **own)
            except (OSError, RuntimeError, ValueError) as error:
                raise DeployError(f"Ray at {self._address}: {error}: expected a cluster that answers") from error
            closing.callback(self._ray.shutdown)
            yield

    def _knock(self) -> None:
        """Ray itself takes minutes to find that nobody is at an address; one without a port is not a place."""
        try:
            place = urlsplit(f"//{self._address.removeprefix('ray://')}")
            if place.port is not None:
                socket.create_connection((place.hostname or "", place.port), _KNOCK).close()
        except (OSError, ValueError) as error:
            raise DeployError(f"Ray at {self._address}: {error}: expected a cluster that answers") from error


def _settle(place: str) -> None:
    """A process begins: Ctrl-C and hang-up are for the one that it works for, and without that one it ends.

    `place`: the folder of its temporary files.
    """
    tempfile.tempdir = place
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop)
    threading.Thread(target=_watch, daemon=True).start()


def _stop(_number: int, _frame: FrameType | None) -> None:
    sys.exit(1)  # which lets a task remove its files


def _watch() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_FAREWELL)
    os._exit(1)


def _call(function: Callable[[Task], Result], task: Task) -> Result:
    try:
        return function(task)
    except SystemExit:
        os._exit(1)  # the pool would take this for the task's result, and begin another
