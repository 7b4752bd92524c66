import numpy as np
import pytest
from pydantic import ValidationError

from common.events import Event
from common.messages import MESSAGE, Answer, Hello, Model, Stop, Update
from common.tensors import Tensors

TENSORS = Tensors.of({"a": np.float32([1, 2])})
EVENT = {"mechanism": "gaussian", "noise_multiplier": 2.0, "sampling": "poisson", "sampling_rate": 0.1}


def test_the_kind_selects_the_class() -> None:
    update = {"kind": "update", "ticket": 3, "version": 5, "work": 12.0, "event": EVENT, "tensors": TENSORS}
    message = MESSAGE.validate_python(update)
    assert isinstance(message, Update)
    assert message.event == Event.model_validate(EVENT)
    assert "tensors" not in message.model_dump()


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "exec"},
        {"kind": "stop", "reason": "x", "surprise": 1},
        {"kind": "stop", "reason": "x" * 501},
        {"kind": "stop", "reason": "x", "boot": "../etc"},
        {"kind": "hello", "digest": "0" * 63, "boot": "b", "samples": 1, "event": EVENT},
        {"kind": "hello", "digest": "0" * 64, "boot": "b", "samples": 0, "event": EVENT},
        {"kind": "answer", "ticket": 1, "version": 1, "event": EVENT, "values": [0.5, float("nan")]},
        {"kind": "answer", "ticket": -1, "version": 1, "event": EVENT, "values": [0.5, 0.5]},
        {"kind": "report", "iteration": 1, "metrics": {f"m{i}": 1.0 for i in range(33)}},
    ],
)
def test_a_bad_header_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        MESSAGE.validate_python(fields)


def test_messages_are_frozen() -> None:
    stop = Stop(reason="done")
    with pytest.raises(ValidationError):
        stop.reason = "changed"  # type: ignore[misc]


def test_json_lists_become_the_answer_pair() -> None:
    answer = MESSAGE.validate_python(
        {"kind": "answer", "ticket": 1, "version": 1, "event": EVENT, "values": [0.5, 0.25]}
    )
    assert isinstance(answer, Answer)
    assert answer.values == (0.5, 0.25)


def test_classes_can_be_made_by_hand() -> None:
    from common.messages import Directive

    model = Model(ticket=1, version=2, directive=Directive(clip_norm=1.0), tensors=TENSORS)
    assert model.tensors is TENSORS
    hello = Hello(digest="0" * 64, boot="b1", samples=3, event=Event(mechanism="none"))
    assert hello.ticket == 0
