"""How long a shell waits for the next event, without a network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from common.address import Address
from common.identity import Identity
from common.messages import Directive, Message, Model
from common.mqtt import Shell
from common.node import CLOUD, Effect, Send
from common.records import Recorder
from common.tensors import Layout, Tensors

LAYOUT = Layout.of({"w": (500_000,)})


class Still:
    """A node that does nothing."""

    def start(self, now: float) -> Sequence[Effect]:
        return ()

    def on_message(self, sender: str, message: Message, now: float) -> Sequence[Effect]:
        return ()

    def on_wake(self, name: str, now: float) -> Sequence[Effect]:
        return ()


def test_a_transfer_that_is_overdue_waits_for_the_connection() -> None:
    """It cannot be sent again while there is none; to look for it all the time took a whole processor."""
    recorder = Recorder(Path("/dev/null"), "run", CLOUD)
    shell = Shell(Still(), Identity("run", CLOUD, "b"), Address("nowhere"), recorder, layout=LAYOUT)
    shell._connected("5")
    model = Model(ticket=1, version=1, directive=Directive(), tensors=Tensors(LAYOUT, np.zeros(500_000, np.float32)))
    shell._perform([Send("edge-0001", model)])
    assert shell._due < math.inf
    shell._vigil.down(shell._now(), "gone")
    assert shell._due == math.inf
    shell._connected("5")
    assert shell._due < math.inf
