"""Files that outlive a crash, and one that a process holds."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from common.errors import RecordError
from common.storage import held, write_whole


def test_one_process_holds_a_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with held(path), pytest.raises(RecordError, match="another process runs here"), held(path, patience=0.1):
        pass
    with held(path, patience=0.0):
        pass


def test_a_process_that_is_about_to_end_is_waited_for(tmp_path: Path) -> None:
    """As one that was just killed, and is not gone yet."""
    first, path = ExitStack(), tmp_path / "lock"
    first.enter_context(held(path))
    end = threading.Timer(0.3, first.close)
    end.start()
    with held(path, patience=30.0):
        end.join()


def test_a_file_is_written_as_a_whole_or_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, [b"old"])
    path.with_name("file.part").mkdir()  # where the new one would be written
    with pytest.raises(RecordError, match="expected room and the right to write it"):
        write_whole(path, [b"new", b"er"])
    assert path.read_bytes() == b"old"
    path.with_name("file.part").rmdir()
    write_whole(path, [b"new", b"er"])
    assert path.read_bytes() == b"newer"
