"""The state of a cloud's node as JSON and arrays, and back again: exact, and made of known types only.

A part names in `STATE` the attributes that change during a run; all else about it follows from the experiment. Its
state comes back into a part that was built anew. What the attributes may hold is in `KINDS`; anything else is an error
when the state is taken, so that nothing is left out unseen.

| in the node | in JSON |
|---|---|
| numbers, text, true, false, none | themselves |
| array, float32 [n] | {"array": its number} |
| tensors | {"tensors": the number of their array} |
| list; tuple, set, deque | [...]; {"tuple": [...]} and so on |
| mapping | {"map": [[key, value], ...]}, in its order |
| enumeration | {"kind": its name, "value": ...} |
| message, dataclass, part | {"kind": its name, "number": ..., "has": {attribute: ...}} |
| the same object again | {"same": its number}: who keeps it in two places sees it change in both |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
from pydantic import BaseModel

from cloud.algorithms.asynchronous import AsynchronousCloud
from cloud.barrier import Arrival
from cloud.charter import Phase
from cloud.closed_loop import Kept, Trial
from cloud.conduct import Allowances
from cloud.controller import Ask
from cloud.ending import Ending
from cloud.probing import Probing
from cloud.roster import Presence, Seat, Work
from cloud.stages import Stage
from common.allowance import Allowance
from common.events import Event
from common.messages import Answer, Bye, Update
from common.tensors import Flat, Layout, Tensors

_MADE: tuple[type, ...] = (
    Allowance,
    Allowances,
    Answer,
    Arrival,
    Ask,
    Bye,
    Ending,
    Event,
    Kept,
    Phase,
    Presence,
    Probing,
    Seat,
    Stage,
    Trial,
)
KINDS: Mapping[str, type] = {kind.__name__: kind for kind in (*_MADE, Update, Work)}
"""What is made anew when a state comes back. Parts that are there already are filled, whatever they are."""
_GROUPS: Mapping[str, Callable[[Iterable[Any]], Any]] = {"deque": deque, "set": set, "tuple": tuple}


class State:
    """Takes and gives back the state of one node; `layout`: what its tensors look like."""

    def __init__(self, layout: Layout, arrays: Sequence[Flat] = ()) -> None:
        self._layout = layout
        self.arrays: list[Flat] = list(arrays)
        """Each float32 [n]; those of a node that is alive, not copies."""
        self._numbers: dict[int, int] = {}
        self._objects: dict[int, Any] = {}  # by their numbers; where a state is taken, numbers by their identity

    def take(self, node: AsynchronousCloud) -> dict[str, Any]:
        """The state as JSON; its arrays are added to `arrays`.

        Raises:
            TypeError: something in it is of no known kind.
        """
        controller = node.controller
        return {"node": self._out(node), "controller": None if controller is None else self._out(controller)}

    def give(self, node: AsynchronousCloud, content: Mapping[str, Any]) -> None:
        """Fills a node that was built from the same experiment.

        Raises:
            KeyError, TypeError, ValueError, IndexError, AttributeError: the content is no state of such a node.
        """
        self._fill(node, content["node"])
        controller = node.controller
        if (controller is None) != (content["controller"] is None):
            raise ValueError("controller: expected one from the beginning of the run on")
        if controller is not None:
            self._fill(controller, content["controller"])

    def _out(self, value: Any) -> Any:
        out: Any
        match value:
            case Enum():
                out = {"kind": type(value).__name__, "value": value.value}
            case None | bool() | int() | float() | str():
                out = value
            case np.ndarray():
                out = {"array": self._number(value)}
            case Tensors():
                out = {"tensors": self._number(value.flat)}
            case Mapping():
                out = {"map": [[self._out(key), self._out(item)] for key, item in value.items()]}
            case list():
                out = [self._out(item) for item in value]
            case set():
                out = {"set": [self._out(item) for item in sorted(value)]}
            case tuple() | deque():
                out = {type(value).__name__: [self._out(item) for item in value]}
            case _ if id(value) in self._objects:
                out = {"same": self._objects[id(value)]}
            case _:
                number = self._objects[id(value)] = len(self._objects)
                has = {name: self._out(getattr(value, name)) for name in _names(value)}
                out = {"kind": type(value).__name__, "number": number, "has": has}
        return out

    def _number(self, array: Flat) -> int:
        """The number of an array; one that is in use twice is kept once."""
        if array.dtype != np.float32 or array.ndim != 1:
            raise TypeError(f"array {array.dtype} {array.shape}: expected float32, in one dimension")
        if id(array) not in self._numbers:
            self._numbers[id(array)] = len(self.arrays)
            self.arrays.append(array)
        return self._numbers[id(array)]

    def _in(self, content: Any) -> Any:
        if isinstance(content, list):
            return [self._in(item) for item in content]
        if isinstance(content, dict) and "kind" in content:
            return self._made(KINDS[content["kind"]], content)
        if isinstance(content, dict):
            ((form, inner),) = content.items()
            return self._group(form, inner)
        return content

    def _group(self, form: str, inner: Any) -> Any:
        match form:
            case "same":
                return self._objects[inner]
            case "array":
                return self.arrays[inner].copy()
            case "tensors":
                return Tensors(self._layout, self.arrays[inner].copy())
            case "map":
                return {self._in(key): self._in(item) for key, item in inner}
        return _GROUPS[form](self._in(item) for item in inner)

    def _made(self, kind: Any, content: Mapping[str, Any]) -> Any:
        if "value" in content:
            return kind(content["value"])
        values = {name: self._in(item) for name, item in content["has"].items()}
        if is_dataclass(kind) or issubclass(kind, BaseModel):
            part = kind(**values)
        else:
            part = kind.__new__(kind)
            for name in kind.STATE:
                setattr(part, name, values[name])
        self._objects[content["number"]] = part
        return part

    def _fill(self, part: Any, content: Mapping[str, Any]) -> None:
        """Gives a part its attributes; what it has of parts and arrays of its own stays, and is filled."""
        self._objects[content["number"]] = part
        for name in part.STATE:
            value, found = content["has"][name], getattr(part, name)
            if isinstance(found, np.ndarray) and found.flags.writeable:
                np.copyto(found, self.arrays[value["array"]])
            elif hasattr(found, "STATE") and value is not None and value.get("kind") == type(found).__name__:
                self._fill(found, value)
            else:
                setattr(part, name, self._in(value))


def _names(value: Any) -> Sequence[str]:
    """The attributes that make up the state of a value."""
    if hasattr(value, "STATE"):
        names: Sequence[str] = value.STATE
        return names
    if type(value).__name__ not in KINDS:
        raise TypeError(f"{type(value).__name__}: expected a part with STATE, or one of {', '.join(sorted(KINDS))}")
    if isinstance(value, BaseModel):
        return list(type(value).model_fields)
    return [field.name for field in fields(value)]
