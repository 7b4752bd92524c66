"""The records of many nodes in one process: rows gather in memory and go to each node's file in blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from common.errors import RecordError
from common.node import CLOUD, NodeId, Seconds
from common.records import line_of

BLOCK = 1 << 16
"""Bytes of one node's rows that wait for the disk."""


class Pages:
    """Writes cloud/records.jsonl and edges/<id>/records.jsonl of one run folder, as the shells of a real run do."""

    def __init__(
        self,
        folder: Path,
        run: str,
        look: Callable[[Mapping[str, object]], None] | None = None,
        block: int = BLOCK,
    ) -> None:
        """`look` sees every row of the cloud as it comes; `block`: bytes of one node's rows that wait at most."""
        self._folder, self._run, self._look, self._block = folder, run, look, block
        self._waiting: dict[NodeId, bytearray] = {}

    def keep(self, node: NodeId, kind: str, row: Mapping[str, object], now: Seconds) -> None:
        """Takes one row.

        Raises:
            RecordError: a full block could not be written.
        """
        content = {"run": self._run, "node": node, "time": now, "kind": kind, **row}
        page = self._waiting.get(node)
        if page is None:
            page = self._waiting[node] = bytearray()
        page += line_of(content)
        if len(page) >= self._block:
            self._write(node)
        if self._look is not None and node == CLOUD:
            self._look(content)

    def close(self) -> None:
        """Writes what waits.

        Raises:
            RecordError: it could not be written.
        """
        for node in list(self._waiting):
            self._write(node)

    def _write(self, node: NodeId) -> None:
        path = self._folder / ("cloud" if node == CLOUD else f"edges/{node}") / "records.jsonl"
        page = self._waiting.pop(node)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(page)
        except OSError as error:
            raise RecordError(f"records: {path}: {error.strerror}: expected room for {len(page)} bytes") from error
