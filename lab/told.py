"""Errors of a Docker engine, and of the way to it, in our words."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager

from docker.errors import DockerException
from requests.exceptions import RequestException

from common.errors import DeployError


@contextmanager
def told(where: str, expected: str) -> Iterator[None]:
    """Makes such an error a DeployError that names the place, and says what was expected there."""
    try:
        yield
    except (DockerException, RequestException, OSError, tarfile.TarError) as error:
        said = " ".join(str(getattr(error, "explanation", None) or error).split())[:300]
        raise DeployError(f"{where}: {said}: expected {expected}") from error
