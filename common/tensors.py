"""Named float32 arrays that live in one flat buffer.

Everything that crosses a seam (node, wire, evaluation) is a `Tensors`: a `Layout` (names and shapes, in
sorted name order) and one contiguous float32 vector. Arithmetic works on the vector; names matter only to
models. The arrays handed out are read-only: who receives a `Tensors` cannot change the sender's copy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Flat = NDArray[np.float32]


@dataclass(frozen=True)
class Layout:
    """Names and shapes of a flat parameter vector, in sorted name order."""

    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    offsets: tuple[int, ...] = field(init=False, repr=False, compare=False)
    size: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        names = [name for name, _ in self.shapes]
        if names != sorted(set(names)):
            raise ValueError(f"tensor names: {names}: expected sorted and distinct")
        offsets, total = [], 0
        for name, shape in self.shapes:
            if not shape or any(length < 1 for length in shape):
                raise ValueError(f"shape of {name}: {shape}: expected at least one axis, none empty")
            offsets.append(total)
            total += math.prod(shape)
        object.__setattr__(self, "offsets", tuple(offsets))
        object.__setattr__(self, "size", total)

    @classmethod
    def of(cls, shapes: Mapping[str, tuple[int, ...]]) -> Layout:
        """The layout of these named shapes, whatever their order."""
        return cls(tuple(sorted((name, tuple(shape)) for name, shape in shapes.items())))

    def zeros(self) -> Flat:
        """A new writable vector of this size."""
        return np.zeros(self.size, dtype=np.float32)


class Tensors(Mapping[str, NDArray[np.float32]]):
    """A read-only view of one flat float32 vector as named arrays, iterated in sorted name order."""

    __slots__ = ("flat", "layout")

    def __init__(self, layout: Layout, flat: NDArray[np.float32]) -> None:
        """Wraps `flat` [layout.size] without a copy; the caller keeps the right to write to its own array."""
        if flat.dtype != np.float32 or flat.shape != (layout.size,) or not flat.flags.c_contiguous:
            raise ValueError(f"flat vector: {flat.dtype} {flat.shape}: expected contiguous float32 ({layout.size},)")
        view = flat.view()
        view.setflags(write=False)
        self.layout = layout
        self.flat: Flat = view

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[np.float32]]) -> Tensors:
        """Copies named arrays into one flat vector."""
        layout = Layout.of({name: np.shape(array) for name, array in arrays.items()})
        parts = [np.asarray(arrays[name], dtype=np.float32).ravel() for name, _ in layout.shapes]
        return cls(layout, np.concatenate(parts) if parts else layout.zeros())

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        for (known, shape), offset in zip(self.layout.shapes, self.layout.offsets, strict=True):
            if known == name:
                return self.flat[offset : offset + math.prod(shape)].reshape(shape)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.layout.shapes)

    def __len__(self) -> int:
        return len(self.layout.shapes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tensors):
            return NotImplemented
        return self.layout == other.layout and bool(np.array_equal(self.flat, other.flat))

    __hash__ = None  # type: ignore[assignment]  # arrays are compared by value

    def __repr__(self) -> str:
        return f"Tensors({', '.join(f'{name}{list(shape)}' for name, shape in self.layout.shapes)})"

    def copy(self) -> Tensors:
        """The same values in a buffer of its own."""
        return Tensors(self.layout, self.flat.copy())
