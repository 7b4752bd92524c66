"""An image of this machine: its name, and its content as an engine loads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from docker.errors import ImageNotFound

from common.errors import ConfigError, DeployError, Fault
from lab.told import own_engine, told

EDGE = "mapa-edge"
"""What `docker compose build edge` makes."""
CURE = f"docker compose build edge makes {EDGE}"
_NAME = re.compile(r"[a-z0-9]([A-Za-z0-9._/:@-]{0,253}[A-Za-z0-9])?")


@dataclass(frozen=True)
class Image:
    """One that is there. `mark`: the id of its content."""

    name: str
    mark: str

    @classmethod
    def find(cls, name: str) -> Image:
        """The image of this name.

        Raises:
            DeployError: this machine has no such image, or no engine.
        """
        with told("docker", "a Docker engine on this machine"), closing(own_engine()) as client:
            client.ping()
            try:
                return cls(name, str(client.images.get(name).id))
            except ImageNotFound as error:
                raise DeployError(f"image {name}: not on this machine: expected it ({CURE})") from error

    def content(self) -> Iterator[bytes]:
        """An archive of it under this name, in blocks; `Image.save` of the library takes the first of its names."""
        with closing(own_engine()) as client:
            yield from client.api.get_image(self.name)


def image_name(text: str) -> str:
    """The text, if it can be an image's name, which goes into scripts and files of others.

    Raises:
        ValueError: it cannot.
    """
    if not _NAME.fullmatch(text):
        raise ValueError("an image's name, such as registry.example.org/mapa-edge:1")
    return text


def check_image(where: str, text: str) -> None:
    """Raises ConfigError if this can be no image's name."""
    try:
        image_name(text)
    except ValueError as error:
        raise ConfigError(Fault(where, text, str(error))) from error
