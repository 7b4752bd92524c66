"""A hostile edge on a real broker: it is muted, and the others' run is what it would have been."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest
from toys import LAYOUT, Place, Pupil, Stranger, Teacher, Toy, tensors, wait_for

from common.doorman import LARGEST, Guests, Manners
from common.messages import Bye, Hello, Message, Refusal, Stop, Update
from common.node import CLOUD, Effect, NodeId, Send
from common.wire import Envelope, encode

pytestmark = pytest.mark.broker
MEMBERS = frozenset({"edge-1", "edge-2"})


def guests(**manners: object) -> Guests:
    return Guests(MEMBERS, Manners.model_validate({"faults": 20} | manners))


def test_an_edge_that_sends_garbage_is_muted_told_once_and_given_up(place: Place) -> None:
    cloud = Teacher(edges=1, rounds=30)
    life = place.joined(cloud, CLOUD, guests=guests())
    hostile = Stranger(place.address, place.topic("edge/edge-2/down/+"))
    for number in range(200):
        hostile.client.publish(place.topic("edge/edge-2/up/update"), bytes([number]) * number, qos=1)
    wait_for(lambda: life.rows("muted"))
    wait_for(lambda: any(topic.endswith("/down/stop") for topic, _ in hostile.heard))
    honest = place.live(Pupil(), "edge-1")
    for _ in range(50):
        hostile.say(place.topic("edge/edge-2/up/hello"), b"more of it")
    assert [honest.end(), life.end()] == [0, 0]
    hostile.leave()
    (row,) = life.rows("muted")
    assert (row["edge"], row["faults"]) == ("edge-2", 21)
    assert [topic.rsplit("/", 1)[1] for topic, _ in hostile.heard].count("stop") == 1
    assert [each["count"] for each in life.rows("unread")] == [229]
    assert ("edge-2", "bye") in [(sender, message.kind) for sender, message in cloud.heard]
    assert len(life.rows("dropped")) < 10
    assert len(cloud.accepted) == 30


def test_an_edge_whose_node_is_refused_over_and_over_is_muted(place: Place) -> None:
    class Strict(Toy):
        def reply(self, sender, message):  # type: ignore[no-untyped-def]
            return [Send(sender, Refusal(reason="no"))] if isinstance(message, Hello) else []

    cloud, edge = Strict(), Pupil()
    edge.wake = lambda name: [Send(CLOUD, edge.last)] * 30  # type: ignore[method-assign]
    life = place.joined(cloud, CLOUD, guests=guests())
    assert place.joined(edge, "edge-1").end() == 0
    wait_for(lambda: any(isinstance(message, Bye) for _, message in cloud.heard))
    assert [row["reason"] for row in life.rows("muted")] == ["no"]
    stops = [message for _, message in edge.heard if isinstance(message, Stop)]
    assert [(stop.failed, stop.reason) for stop in stops] == [(True, "muted after 21 faults: no")]


class Fragile(Toy):
    """Breaks at the first word of an honest edge."""

    def reply(self, sender: NodeId, message: Message) -> Sequence[Effect]:
        if sender == "edge-1":
            raise ZeroDivisionError("oh")
        return []


def test_a_cloud_that_fails_writes_down_what_it_did_not_read(place: Place) -> None:
    life = place.joined(Fragile(), CLOUD, guests=guests())
    hostile = Stranger(place.address)
    for _ in range(30):
        hostile.say(place.topic("edge/edge-2/up/hello"), b"garbage")
    wait_for(lambda: life.rows("muted"))
    for _ in range(10):
        hostile.say(place.topic("edge/edge-2/up/hello"), b"more of it")
    hostile.leave()
    place.live(Pupil(), "edge-1")
    life.end()
    assert isinstance(life.error, ZeroDivisionError)
    assert [(each["sender"], each["count"]) for each in life.rows("unread")] == [("edge-2", 19)]


def test_a_cloud_that_fails_without_room_for_rows_says_stop_and_leaves_no_thread_behind(place: Place) -> None:
    life, edge = place.joined(Fragile(), CLOUD, guests=guests()), Pupil()
    hostile = Stranger(place.address)
    for _ in range(30):
        hostile.say(place.topic("edge/edge-2/up/hello"), b"garbage")
    wait_for(lambda: life.rows("muted"))
    hostile.leave()
    life.shell.recorder.close()
    assert place.live(edge, "edge-1").end() == 0
    assert edge.heard[-1] == (CLOUD, Stop(reason="ZeroDivisionError: oh", failed=True))
    life.end()
    assert not [thread.name for thread in threading.enumerate() if life.shell.identity.boot in thread.name]


def test_a_flood_of_large_payloads_leaves_the_others_their_place(place: Place) -> None:
    cloud = Teacher(edges=1, rounds=50)
    life = place.joined(cloud, CLOUD, guests=guests())
    hostile = Stranger(place.address)
    for _ in range(40):
        hostile.client.publish(place.topic("edge/edge-2/up/update"), bytes(LARGEST + 1), qos=1)
    assert place.live(Pupil(), "edge-1").end() == 0
    assert life.end() == 0
    hostile.leave()
    assert "expected at most" in life.rows("muted")[0]["reason"]


def test_strangers_are_not_remembered(place: Place) -> None:
    cloud = Teacher(edges=1, rounds=20)
    life = place.joined(cloud, CLOUD, guests=guests(strangers=3))
    hostile = Stranger(place.address)
    for number in range(500):
        hello = Hello(digest="0" * 64, boot="b", samples=1, event=Pupil().last.event)  # type: ignore[union-attr]
        payload = encode(Envelope(place.run, "b", number, 0.0, hello))
        hostile.client.publish(place.topic(f"edge/edge-{number + 10}/up/hello"), payload, qos=1)
    wait_for(lambda: life.rows("dropped"))
    assert place.live(Pupil(), "edge-1").end() == 0
    life.end()
    hostile.leave()
    assert len({sender for sender, _ in cloud.heard}) == 4
    assert len(life.shell._mailbox._seen) == 4
    assert len(life.shell._doorman._known) == 4
    assert {row["sender"] for row in life.rows("dropped")} == {"strangers"}


def test_a_number_that_is_not_finite_is_refused_as_in_the_simulator(place: Place) -> None:
    class Broken(Pupil):
        def reply(self, sender, message):  # type: ignore[no-untyped-def]
            effects = super().reply(sender, message)
            if isinstance(self.last, Update):
                flat = self.last.tensors.flat.copy()
                flat[:2] = np.nan, np.inf
                bad = replace_tensors(self.last, flat)
                return [Send(CLOUD, bad) if isinstance(each, Send) else each for each in effects]
            return effects

    cloud, edge = Teacher(edges=1, rounds=1), Broken()
    life = place.joined(cloud, CLOUD, guests=guests())
    place.joined(edge, "edge-1")
    wait_for(lambda: any(isinstance(message, Refusal) for _, message in edge.heard))
    reason = "tensors: 2 of 100 values: expected finite numbers"
    row = life.rows("dropped")[0]
    assert (row["sender"], row["reason"], row["count"]) == ("edge-1", reason, 1)
    assert next(message.reason for _, message in edge.heard if isinstance(message, Refusal)) == reason


def replace_tensors(update: Update, flat: np.ndarray) -> Update:  # type: ignore[type-arg]
    values = tensors(0.0)
    return update.model_copy(update={"tensors": type(values)(LAYOUT, flat)})
