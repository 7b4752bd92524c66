"""The file that says where edges are to run: Docker hosts, and what each of them has.

broker: broker.example.org:8883        # as the edges reach it
certs: certs                           # made by `mapa certs`; each host gets those of its own edges only
hosts:
  - name: clinic-a
    engine: ssh://mapa@clinic-a.example.org
    edges: [edge-0001, edge-0002]
    data: /srv/records                 # a folder there, if the experiment's data are not in the image
  - name: here
    engine: unix:///var/run/docker.sock
    edges: [edge-0003]
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, FiniteFloat, StringConstraints, ValidationError

from common.address import Address
from common.errors import ConfigError, Fault
from common.experiment import faults_of, read_yaml
from common.section import Section, Slug
from lab.image import EDGE, image_name
from lab.tls import file_faults

_ENGINE = re.compile(
    r"unix:///[^\s?#]+|tcp://[A-Za-z0-9.:\[\]-]+:\d+|ssh://([A-Za-z0-9._][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9.:-]*"
)


def _engine(text: str) -> str:
    if not _ENGINE.fullmatch(text):
        raise ValueError("ssh://[user@]host[:port], tcp://host:port or unix:///path")
    return text


Edge = Annotated[str, StringConstraints(pattern=r"^edge-\d{4,}$")]
Folder = Annotated[str, StringConstraints(pattern=r"^/[^:]*$")]
Memory = Annotated[str, StringConstraints(pattern=r"^[1-9]\d*[kmg]$")]


class Host(Section):
    """One Docker host and the edges that run on it; paths are folders there."""

    name: Slug
    engine: Annotated[str, AfterValidator(_engine)]
    tls: str | None = Field(default=None, description="tcp: folder here with ca.pem, cert.pem and key.pem")
    edges: list[Edge] = Field(min_length=1)
    data: Folder | None = Field(default=None, description="the edges read their records from it")
    ledgers: Folder | None = Field(default=None, description="where the edges' ledgers are; none: a volume")
    records: Literal["stay", "fetch"] = Field(
        default="stay", description="the edges' own records, which are private: they stay there, or come here"
    )
    cpus: Annotated[FiniteFloat, Field(gt=0)] | None = None
    memory: Memory | None = None
    network: str | None = Field(default=None, description="a Docker network there, to reach the broker by")


class Hosts(Section):
    """All of them, and what they have in common."""

    broker: str
    certs: str | None = Field(default=None, description="folder of certificates, here")
    plain: bool = Field(default=False, description="without TLS: only in a network that you trust")
    image: Annotated[str, AfterValidator(image_name)] = EDGE
    hosts: list[Host] = Field(min_length=1)

    @property
    def edges(self) -> list[str]:
        """Those of all hosts."""
        return [edge for host in self.hosts for edge in host.edges]


def load(path: Path) -> Hosts:
    """Reads the file; folders of this machine in it are relative to it.

    Raises:
        ConfigError: one fault for each thing that is wrong.
    """
    try:
        found = Hosts.model_validate(read_yaml(path))
    except ValidationError as error:
        raise ConfigError(faults_of(error, path.name)) from error
    faults = list(_faults(found))
    here = path.absolute().parent
    hosts = [host.model_copy(update={"tls": _at(here, host.tls)}) for host in found.hosts]
    faults += [fault for host in hosts if host.tls is not None for fault in file_faults(f"{host.name}.tls", host.tls)]
    if faults:
        raise ConfigError(faults)
    return found.model_copy(update={"certs": _at(here, found.certs), "hosts": hosts})


def _at(here: Path, folder: str | None) -> str | None:
    return None if folder is None else str(here / Path(folder).expanduser())


def _faults(found: Hosts) -> list[Fault]:
    faults: list[Fault] = []
    try:
        Address.parse(found.broker)
    except ConfigError as error:
        faults += error.faults
    if found.certs is None and not found.plain:
        faults.append(Fault("certs", None, "a folder made by mapa certs (or plain: true, in a network that you trust)"))
    for names, where in (([host.name for host in found.hosts], "hosts.name"), (found.edges, "hosts.edges")):
        faults += [Fault(where, name, "named once") for name, count in Counter(names).items() if count > 1]
    for host in found.hosts:
        kind = urlsplit(host.engine).scheme
        if kind == "tcp" and host.tls is None:
            text = "a folder with ca.pem, cert.pem and key.pem: whoever reaches an open engine owns its host"
            faults.append(Fault(f"{host.name}.tls", None, text))
        if kind != "tcp" and host.tls is not None:
            faults.append(Fault(f"{host.name}.tls", host.tls, f"none with {kind}"))
    return faults
