"""Brokers and places that are gone after their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from guarded import Guarded
from programs import Programs, Start
from toys import Mosquitto, Place

from common.address import Address
from common.broker import choose
from common.experiment import Experiment
from common.trust.folder import Folder


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """One broker for all that does not disturb it."""
    with choose(None, tmp_path_factory.mktemp("broker")) as broker:
        yield broker.address


@pytest.fixture
def guarded(folder: Folder) -> Iterator[Guarded]:
    """The broker of the test's own `folder` of certificates."""
    broker = Guarded(folder)
    yield broker
    broker.kill()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Callable[..., Mosquitto]]:
    """Starts a broker with settings of its own, which the test may kill."""
    started: list[Mosquitto] = []

    def start(*settings: str) -> Mosquitto:
        started.append(Mosquitto(tmp_path, *settings))
        return started[-1]

    yield start
    for broker in started:
        broker.kill()


@pytest.fixture
def place_at(tmp_path: Path) -> Iterator[Callable[[Address], Place]]:
    """A place on a broker; the shells that a test leaves behind there are ended."""
    places: list[Place] = []

    def make(address: Address) -> Place:
        places.append(Place(address, tmp_path / f"place-{len(places)}"))
        return places[-1]

    yield make
    for place in places:
        place.leave()


@pytest.fixture
def place(shared_broker: Address, place_at: Callable[[Address], Place]) -> Place:
    return place_at(shared_broker)


@pytest.fixture
def own_broker(own: Callable[..., Mosquitto]) -> Mosquitto:
    return own("allow_anonymous true")


@pytest.fixture
def own_place(own_broker: Mosquitto, place_at: Callable[[Address], Place]) -> Place:
    return place_at(own_broker.address)


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Start]:
    made: list[Programs] = []

    def make(plan: Experiment, broker: Address) -> Programs:
        folder = tmp_path / f"programs-{len(made)}"
        folder.mkdir()
        made.append(Programs(folder, plan, broker))
        return made[-1]

    yield make
    for one in made:
        for process in one.processes.values():
            process.kill()
            process.wait()
