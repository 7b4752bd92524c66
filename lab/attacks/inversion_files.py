"""Writes what came of an inversion: `inversion.json` and `inversion.png`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from common.errors import RecordError
from lab.attacks.inversion import Inversion
from lab.attacks.inversion_words import sentences


def write(result: Inversion, folder: Path) -> Sequence[Path]:
    """Both files, in that order.

    Raises:
        RecordError: the folder cannot be written.
    """
    from lab.attacks.inversion_picture import draw  # noqa: PLC0415 - imports matplotlib

    paths = (folder / "inversion.json", folder / "inversion.png")
    content = {**result.content(), "sentences": list(sentences(result))}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths[0].write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        draw(result).savefig(paths[1])
    except OSError as error:
        raise RecordError(f"{folder}: {error}: expected a folder that can be written") from error
    return paths
