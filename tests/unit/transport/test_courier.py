"""Two couriers and the wires between them, without a broker."""

from __future__ import annotations

from collections import deque
from collections.abc import ValuesView

import numpy as np
import pytest

from common.courier import Courier
from common.errors import LocalProtocolError, WireError
from common.events import Event
from common.identity import Identity
from common.messages import Bye, Directive, Message, Model, Running, Stop, Update
from common.node import CLOUD, EDGES, NodeId
from common.tensors import Layout, Tensors
from common.topics import Topics
from common.transfer import CHUNK, Outgoing

LAYOUT = Layout.of({"w": (1_400_000,)})
EDGE = "edge-0001"


class Side:
    """A courier and what it published; `room`: what the broker lets through."""

    def __init__(self, node: str, layout: Layout | None = LAYOUT, room: int = 10 * CHUNK) -> None:
        self.topics = Topics("run", node)
        self.published: deque[tuple[str, bytes, bool]] = deque()
        self.has_room = True
        self.courier = Courier(Identity("run", node, f"boot-{node}"), self.topics, self.publish, lambda: room, layout)

    def publish(self, topic: str, payload: bytes, retained: bool = False) -> bool:
        if self.has_room:
            self.published.append((topic, payload, retained))
        return self.has_room

    def deliver(self, other: Side, now: float = 0.0) -> list[Message]:
        """Hands all that was published to the other side."""
        read = []
        while self.published:
            topic, payload, _ = self.published.popleft()
            origin = other.topics.origin(topic)
            assert origin is not None
            envelope = other.courier.receive(origin, payload, now)
            read += [] if envelope is None else [envelope.message]
        return read


def model(ticket: int = 1, seed: int = 0) -> Model:
    flat = np.random.default_rng(seed).normal(size=LAYOUT.size).astype(np.float32)
    return Model(ticket=ticket, version=0, directive=Directive(), tensors=Tensors(LAYOUT, flat))


def exchange(cloud: Side, edge: Side) -> list[Message]:
    read = []
    while cloud.published or edge.published:
        read += cloud.deliver(edge)
        edge.deliver(cloud)
    return read


@pytest.mark.parametrize("is_retracted", [True, False])
def test_what_the_other_side_has_forgotten_can_be_sent_from_the_start(is_retracted: bool) -> None:
    edge, cloud = Side(EDGE), Side(CLOUD)
    update = Update(ticket=1, version=0, work=1.0, event=Event(mechanism="none"), tensors=model().tensors)
    edge.courier.send(CLOUD, update, 0.0)
    edge.deliver(cloud)
    cloud.published.clear()
    cloud.courier.forget(EDGE)  # its last will came
    if is_retracted:
        edge.courier.retract()
    edge.courier.send(CLOUD, update, 0.0)
    assert bool(exchange(edge, cloud)) == is_retracted, "else it is taken to be on its way"


def test_a_small_message_is_one_payload_with_growing_numbers() -> None:
    edge, cloud = Side(EDGE), Side(CLOUD)
    edge.courier.send(CLOUD, Bye(reason="one"), 1.0)
    edge.courier.send(CLOUD, Bye(reason="one"), 2.0)
    numbers = []
    for topic, payload, retained in edge.published:
        origin = cloud.topics.origin(topic)
        assert origin is not None
        envelope = cloud.courier.receive(origin, payload, 0.0)
        assert envelope is not None
        assert not retained
        numbers.append((envelope.number, envelope.sent, envelope.boot))
    assert numbers == [(1, 1.0, "boot-edge-0001"), (2, 2.0, "boot-edge-0001")]


def test_a_large_message_goes_in_chunks_and_comes_back_whole() -> None:
    cloud, edge = Side(CLOUD), Side(EDGE)
    sent = model()
    cloud.courier.send(EDGE, sent, 0.0)
    assert [topic.rsplit("/", 1)[1] for topic, _, _ in cloud.published] == ["chunk"] * 4
    assert max(len(payload) for _, payload, _ in cloud.published) < CHUNK + 100
    assert exchange(cloud, edge) == [sent]
    assert cloud.courier.due == float("inf")


def test_chunks_fit_the_largest_packet_of_the_broker() -> None:
    cloud, edge = Side(CLOUD, room=40_000), Side(EDGE, room=40_000)
    sent = model()
    cloud.courier.send(EDGE, sent, 0.0)
    assert max(len(payload) for _, payload, _ in cloud.published) == 40_000
    assert exchange(cloud, edge) == [sent]


def test_a_message_that_is_on_its_way_is_not_sent_twice_newer_work_replaces_it() -> None:
    cloud, edge = Side(CLOUD), Side(EDGE)
    cloud.courier.send(EDGE, model(1, seed=1), 0.0)
    cloud.courier.send(EDGE, model(1, seed=2), 0.0)
    assert len(cloud.published) == 4
    newer = model(2, seed=3)
    cloud.courier.send(EDGE, newer, 0.0)
    assert exchange(cloud, edge) == [newer]


def test_what_was_lost_is_sent_again() -> None:
    cloud, edge = Side(CLOUD), Side(EDGE)
    sent = model()
    cloud.courier.send(EDGE, sent, 0.0)
    cloud.published.clear()
    due = cloud.courier.due
    assert cloud.courier.resend(due - 0.1) == []
    assert not cloud.published
    assert cloud.courier.resend(due) == []
    assert exchange(cloud, edge) == [sent]


def test_a_transfer_to_a_dead_node_ends() -> None:
    cloud = Side(CLOUD)
    cloud.courier.send(EDGE, model(), 0.0)
    failures = []
    while not failures:
        failures = cloud.courier.resend(cloud.courier.due)
    assert [peer for peer, _ in failures] == [EDGE]
    assert "times without an answer" in str(failures[0][1])
    assert cloud.courier.due == float("inf")


def test_a_node_that_left_is_forgotten() -> None:
    cloud, edge = Side(CLOUD), Side(EDGE)
    cloud.courier.send(EDGE, model(), 0.0)
    edge.courier.send(CLOUD, model(), 0.0)
    edge.deliver(cloud)
    cloud.courier.forget(EDGE)
    assert cloud.courier.due == float("inf")
    edge.published.clear()
    edge.courier.resend(edge.courier.due)
    assert edge.deliver(cloud) == [], "four of the six chunks are not enough"


def test_the_public_state_is_repeated_with_its_number() -> None:
    cloud, edge = Side(CLOUD), Side(EDGE)
    cloud.courier.repeat_state()
    assert not cloud.published
    cloud.courier.send(EDGES, Stop(reason="done"), 0.0)
    cloud.courier.repeat_state()
    first, second = cloud.published
    assert first == second
    assert first[2], "retained"
    assert cloud.deliver(edge) == [Stop(reason="done")] * 2


def test_what_does_not_stay_is_said_to_those_who_are_there_and_never_repeated() -> None:
    """A cloud that failed may go on: an edge that comes later must not hear that it failed."""
    cloud = Side(CLOUD)
    cloud.courier.send(EDGES, Running(boot="b", digest="0" * 64, lineage="l"), 0.0)
    (_, running, _) = cloud.published.popleft()
    cloud.courier.send(EDGES, Stop(reason="no room", failed=True), 1.0, stays=False)
    (_, _, is_retained) = cloud.published.popleft()
    assert not is_retained
    cloud.courier.repeat_state()
    assert [(payload, retained) for _, payload, retained in cloud.published] == [(running, True)]


def test_a_broker_without_room_is_told_apart_from_a_full_queue() -> None:
    cloud = Side(CLOUD)
    cloud.has_room = False
    with pytest.raises(WireError, match="expected room in the queue"):
        cloud.courier.send(EDGES, Stop(reason="done"), 0.0)


def test_nothing_large_goes_to_all() -> None:
    cloud = Side(CLOUD, room=100)
    with pytest.raises(LocalProtocolError, match="stop to all"):
        cloud.courier.send(EDGES, Stop(reason="done"), 0.0)


def test_an_answer_to_nothing_does_nothing() -> None:
    cloud, edge = Side(CLOUD), Side(EDGE)
    edge.courier.send(CLOUD, model(), 0.0)
    edge.deliver(cloud)
    stranger = Side(EDGE)
    assert cloud.deliver(stranger) == []


def test_tensors_of_another_layout_are_refused() -> None:
    cloud, edge = Side(CLOUD), Side(EDGE, Layout.of({"w": (3,)}))
    cloud.courier.send(EDGE, model(), 0.0)
    with pytest.raises(WireError, match="of a payload of"):
        cloud.deliver(edge)


def test_when_to_send_again_is_known_without_a_look_at_every_transfer() -> None:
    """A cloud asks this before every event, whatever the number of edges that it sends large models to."""
    cloud = Side(CLOUD)
    for number in range(4):
        cloud.courier.send(f"edge-{number:04d}", model(), float(number))
    looked = []

    class Watched(dict[NodeId, Outgoing]):
        def values(self) -> ValuesView[Outgoing]:
            looked.append(len(self))
            return super().values()

    cloud.courier._going = Watched(cloud.courier._going)
    assert [cloud.courier.due for _ in range(100)] == [5.0] * 100
    assert looked == []
    cloud.courier.forget("edge-0000")
    assert cloud.courier.resend(5.0) == [], "it looked too early, which does no harm"
    assert cloud.courier.due == 6.0
