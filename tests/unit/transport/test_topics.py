"""The table of topics, in both directions."""

from __future__ import annotations

import pytest

from common.errors import LocalProtocolError
from common.messages import Bye, Refusal, Running, Stop
from common.node import CLOUD, EDGES, NodeId
from common.topics import Origin, Topics, is_edge

CLOUDS, EDGE = Topics("run-1", CLOUD), Topics("run-1", "edge-0001")
DOWN, UP = "fl/run-1/edge/edge-0001/down/", "fl/run-1/edge/edge-0001/up/"


def matches(pattern: str, topic: str) -> bool:
    levels, parts = pattern.split("/"), topic.split("/")
    return len(levels) == len(parts) and all(level in {"+", part} for level, part in zip(levels, parts, strict=True))


def test_an_edge_writes_to_the_cloud() -> None:
    route = EDGE.route(CLOUD, Bye(reason="done"))
    assert (route.topic, route.retained, route.peer) == (UP + "bye", False, CLOUD)


def test_the_cloud_writes_to_one_edge() -> None:
    route = CLOUDS.route("edge-0001", Refusal(reason="no"))
    assert (route.topic, route.retained, route.peer) == (DOWN + "refusal", False, "edge-0001")


def test_the_state_of_the_run_is_public_and_retained() -> None:
    for message in (Stop(reason="done"), Running(boot="b", digest="0" * 64)):
        route = CLOUDS.route(EDGES, message)
        assert (route.topic, route.retained, route.peer) == ("fl/run-1/public/state", True, None)


@pytest.mark.parametrize(
    ("topics", "to", "message"),
    [
        (EDGE, EDGES, Stop(reason="done")),
        (CLOUDS, EDGES, Refusal(reason="no")),
        (EDGE, "edge-0002", Bye(reason="no")),
        (CLOUDS, CLOUD, Bye(reason="no")),
    ],
)
def test_nobody_speaks_out_of_turn(topics: Topics, to: NodeId, message: object) -> None:
    with pytest.raises(LocalProtocolError, match="expected"):
        topics.route(to, message)


def test_what_one_side_writes_the_other_side_reads() -> None:
    for writer, reader, to in ((EDGE, CLOUDS, CLOUD), (CLOUDS, EDGE, "edge-0001")):
        for name in ("hello", "chunk", "ack"):
            topic = writer.lane(to, name)
            assert any(matches(pattern, topic) for pattern in reader.subscriptions)
            assert not any(matches(pattern, topic) for pattern in writer.subscriptions)
    assert any(matches(pattern, EDGE.status) for pattern in CLOUDS.subscriptions)
    assert any(matches(pattern, CLOUDS.state) for pattern in EDGE.subscriptions)
    assert EDGE.status in EDGE.subscriptions
    assert CLOUDS.status in CLOUDS.subscriptions


def test_an_edge_reads_nothing_of_another_edge() -> None:
    other = Topics("run-1", "edge-0002")
    seen = [CLOUDS.lane("edge-0002", "model"), other.lane(CLOUD, "update"), other.status]
    assert not any(matches(pattern, topic) for pattern in EDGE.subscriptions for topic in seen)


@pytest.mark.parametrize(
    ("topic", "origin"),
    [
        (UP + "update", Origin("edge-0001", "message")),
        (UP + "chunk", Origin("edge-0001", "chunk")),
        (UP + "ack", Origin("edge-0001", "ack")),
        (DOWN + "model", Origin(CLOUD, "message")),
        (DOWN + "chunk", Origin(CLOUD, "chunk")),
        ("fl/run-1/edge/edge-0001/status", Origin("edge-0001", "status")),
        ("fl/run-1/cloud/status", Origin(CLOUD, "status")),
        ("fl/run-1/public/state", Origin(CLOUD, "message")),
        ("fl/run-2/edge/edge-0001/up/update", None),
        ("fl/run-1/edge/edge-0001/up", None),
        ("fl/run-1/edge/edge-0001/up/update/more", None),
        ("fl/run-1/edge/Edge/up/update", None),
        ("fl/run-1/edge/cloud/up/update", None),
        ("fl/run-1/public/other", None),
        ("fl/run-1", None),
        ("$SYS/broker/version", None),
        ("", None),
    ],
)
def test_the_topic_tells_the_sender(topic: str, origin: Origin | None) -> None:
    assert CLOUDS.origin(topic) == origin
    assert CLOUDS.origin(topic) == origin, "the second time from memory"


@pytest.mark.parametrize(
    ("run", "node"), [("run/1", CLOUD), ("#", CLOUD), ("run", "Edge"), ("run", "a/b"), ("", CLOUD)]
)
def test_ids_that_would_break_a_topic_are_refused(run: str, node: str) -> None:
    with pytest.raises(ValueError, match="id: "):
        Topics(run, node)


def test_the_cloud_is_no_edge() -> None:
    assert is_edge("edge-0001")
    assert not is_edge(CLOUD)
    assert not is_edge("$SYS/x")
