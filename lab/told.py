"""The way to a Docker engine, and its errors in our words."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import docker
from docker.errors import APIError, DockerException
from docker.utils import kwargs_from_env
from requests.exceptions import RequestException

from common.errors import DeployError


@contextmanager
def told(where: str, expected: str) -> Iterator[None]:
    """Makes such an error a DeployError that names the place, and says what was expected there."""
    try:
        yield
    except (DockerException, RequestException, OSError, tarfile.TarError) as error:
        root = root_of(error)
        said = " ".join(str(getattr(root, "explanation", None) or root).split())[:300]
        raise DeployError(f"{where}: {said}: expected {expected}") from error


def root_of(error: BaseException) -> BaseException:
    """What led to this error, as libraries wrap `Connection refused` in three of their own; an engine's own answer."""
    while not isinstance(error, APIError):
        before = (error.__cause__, None if error.__suppress_context__ else error.__context__, *error.args)
        cause = next((one for one in before if isinstance(one, BaseException)), None)
        if cause is None:
            break
        error = cause
    return error


def own_engine(environment: Mapping[str, str] | None = None) -> docker.DockerClient:
    """The engine that this process's environment, or another, names.

    Raises:
        DockerException, RequestException, OSError: there is none.
    """
    named = kwargs_from_env(None if environment is None else dict(environment))
    look_for(named.get("base_url", "unix:///var/run/docker.sock"))
    return docker.DockerClient(**named)


def look_for(url: str) -> None:
    """Raises OSError if an engine's socket is missing on this machine: asked, docker-py would leave its own open."""
    if url.startswith("unix://"):
        Path(url.removeprefix("unix://")).stat()
