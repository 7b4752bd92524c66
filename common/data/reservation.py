"""Keeps the edges of one host from downloading into the same folder at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.errors import DataError

PATIENCE = 1800.0
"""Seconds to wait for another process that downloads into the same folder."""


@contextmanager
def reserved(root: Path, name: str, patience: float = PATIENCE) -> Iterator[None]:
    """Only one process of this host at a time downloads `name` into `root`; the others wait here.

    The lock belongs to an open file, so it ends with the process that holds it, however that ends.

    Raises:
        DataError: the folder cannot be written, or the lock was not free after `patience` seconds.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415  # only downloads need it

    path = root / f".{name}.lock"
    lock = FileLock(path, timeout=patience)
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise DataError(f"{path}: held by another process for {patience:g} s: expected its download to end") from error
    except (OSError, NotImplementedError) as error:
        raise DataError(
            f"data.root: {root}: {error}: expected a folder to download into; make it writable, or set "
            "data.download: false"
        ) from error
    try:
        yield
    finally:
        lock.release()
