"""Answers of the accountant, kept on disk by their questions: what took a second comes back in milliseconds.

One file per answer, `<folder>/<digest of the question>.json`, with the question and a digest of both beside the answer:

    {"question": {...}, "answer": ..., "digest": "..."}

Part of every question is how it was answered: a digest of this project's accounting code, and the versions of the
libraries below it. So an answer never outlives the code that gave it.

| state of a file | what happens |
|---|---|
| missing, damaged, of another question | computed and written anew |
| of another user, or one that others may write | the same: anybody can make up an answer with its digest |
| cannot be read or written | computed; one warning |
| written by two at once | whole files replace each other: both hold the same answer |

Whoever asks looks at a kept answer as at any other input: one that cannot be true is computed anew.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

LOG = logging.getLogger(__name__)
LIBRARIES = ("dp-accounting", "numpy", "scipy")


def cache_folder(environment: Mapping[str, str]) -> Path | None:
    """Where answers are kept: `mapa/answers` in XDG_CACHE_HOME, or in ~/.cache; None without a home."""
    root, home = environment.get("XDG_CACHE_HOME", ""), environment.get("HOME", "")
    if root and Path(root).is_absolute():
        return Path(root) / "mapa" / "answers"
    return Path(home) / ".cache" / "mapa" / "answers" if home and Path(home).is_absolute() else None


@cache
def versions() -> Mapping[str, str]:
    """Of everything that an answer depends on."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted([here / "events.py", *(here / "privacy").glob("*.py")]):
        digest.update(file.read_bytes())
    return {"accounting": digest.hexdigest(), **{name: metadata.version(name) for name in LIBRARIES}}


class Answers:
    """A folder of answers. Without a folder nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._is_told = False

    def ask(self, question: Mapping[str, Any], compute: Callable[[], Any], /) -> Any:
        """The kept answer, or a new one, which is kept. Question and answer are JSON values."""
        if self._folder is None:
            return compute()
        full = {"versions": versions(), "question": question}
        file = self._folder / f"{_digest(full)}.json"
        found = self._read(file, full)
        if found is not None:
            return found["answer"]
        answer = compute()
        self._write(file, {"question": full, "answer": answer, "digest": _digest([full, answer])})
        return answer

    def _read(self, file: Path, full: Mapping[str, Any]) -> Mapping[str, Any] | None:
        try:
            with file.open("rb") as opened:
                if not _is_own(os.fstat(opened.fileno())):
                    return None
                content = json.loads(opened.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(error)
            return None
        except ValueError:  # not UTF-8, or not JSON: damaged
            return None
        if not isinstance(content, dict) or content.keys() != {"question", "answer", "digest"}:
            return None
        is_whole = content["digest"] == _digest([content["question"], content["answer"]])
        return content if is_whole and _text(content["question"]) == _text(full) else None

    def _write(self, file: Path, content: Mapping[str, Any]) -> None:
        part: Path | None = None
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".part", delete=False) as opened:
                part = Path(opened.name)
                opened.write(_text(content).encode())
            part.replace(file)
        except OSError as error:
            self._warn(error)
            if part is not None:
                with suppress(OSError):
                    part.unlink()

    def _warn(self, error: OSError) -> None:
        if not self._is_told:
            LOG.warning("cache: %s: %s: answers are computed each time", self._folder, error.strerror)
        self._is_told = True


def _is_own(status: os.stat_result) -> bool:
    """Whether this user wrote a file, and nobody else can."""
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _digest(value: Any) -> str:
    return hashlib.sha256(_text(value).encode()).hexdigest()
