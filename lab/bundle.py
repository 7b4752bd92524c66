"""One archive with all that an edge needs on a host that this one cannot reach: handed over, unpacked, started.

It holds the edge's private key: whoever has it can pass for that edge. With `mapa certs request` on the edge's own
machine the key never leaves it; the bundle is then made without, and the key is put in there.
"""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from tempfile import TemporaryFile

import yaml

from common.address import Address
from common.errors import ConfigError, Fault, RecordError
from common.experiment import Experiment, edge_ids
from lab.credentials import EXPERIMENT, edge_arguments
from lab.image import Image, check_image
from lab.told import told

_COMPOSE = """\
# One edge. Started by ./start.sh; DATA: folder of the records (default: ./data).
name: mapa-$edge
services:
  edge:
    image: "$image"
    command: $arguments
    user: $${MAPA_USER:-10001:10001}
    init: true
    read_only: true
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    stop_grace_period: 30s
    restart: on-failure:3
    tmpfs: [/tmp]
    volumes:
      - ./experiment.yaml:/run/mapa/experiment.yaml:ro
      - ./certs:/run/mapa/certs:ro
      - ./ledger:/ledger
      - ./records:/results
      - $${DATA:-./data}:/app/data:ro
    logging: {driver: json-file, options: {max-size: 10m, max-file: "3"}}
"""
_START = """\
#!/bin/sh
# Starts this edge and stays until the run is over; Ctrl-C ends it in good order. Started again, it goes on.
set -eu
cd "$$(dirname "$$0")"
lacks() { echo "$$*" >&2; exit 5; }
command -v docker >/dev/null || lacks "docker: not found: expected Docker with the compose plugin"
docker compose version >/dev/null 2>&1 || lacks "docker compose: not found: expected Docker with the compose plugin"
said=$$(docker version 2>&1 >/dev/null) || lacks "$$said: expected an engine that lets this user in (group docker)"
if ! docker image inspect $image >/dev/null 2>&1; then
    [ -f image.tar ] || lacks "image $image: missing: expected it, or image.tar here (mapa bundle --with-image)"
    docker load --input image.tar
fi
mkdir -p ledger records data
MAPA_USER="$$(id -u):$$(id -g)"
export MAPA_USER
exec docker compose up --exit-code-from edge
"""
_README = """\
This starts $edge of the experiment $name, run $run, with the broker $broker.

    ./start.sh

It needs Docker with the compose plugin, and a way out to $broker. Nothing has to be let in.

  data/           your records, where experiment.yaml expects them (another place: DATA=/srv/records ./start.sh)
  experiment.yaml what is learned, and under which privacy budget: read it, the cloud cannot change it
  certs/          $edge.key is this edge's identity: keep it secret
  ledger/         what this edge has released, over all runs: never delete it, back it up with all its files
  records/        what it did, with numbers that are private to this host

Only noisy updates leave this host; each is written down in ledger/ before, and the edge stops when its budget is spent.
"""


@dataclass(frozen=True)
class Bundle:
    """What goes into the archive.

    Attributes:
        experiment: with all its defaults.
        edge: whose bundle it is.
        run: its id.
        broker: as the edge will reach it.
        image: name of the edge's image.
        files: its credentials, by path; empty for a connection in plain text.
    """

    experiment: Experiment
    edge: str
    run: str
    broker: str
    image: str
    files: Mapping[str, bytes]

    def check(self) -> None:
        """Raises ConfigError if there is no such edge, no broker can be there, or no image can be called so."""
        known = edge_ids(self.experiment.data.edges)
        if self.edge not in known:
            raise ConfigError(Fault("NAME", self.edge, f"one of {known[0]} to {known[-1]}"))
        Address.parse(self.broker)
        check_image("--image", self.image)

    def write(self, target: Path, *, with_image: bool) -> None:
        """Writes the archive (.tar.gz), with the image of this machine if that is wanted.

        Raises:
            DeployError: there is no such image here.
            RecordError: the file cannot be written.
        """
        part = target.with_name(target.name + ".part")
        try:
            with tarfile.open(part, "w:gz", compresslevel=3) as archive:
                part.chmod(0o600)
                for name, data in self._content().items():
                    _add(archive, f"{self.edge}/{name}", data)
                if with_image:
                    _add_image(archive, f"{self.edge}/image.tar", self.image)
            part.replace(target)
        except OSError as error:
            raise RecordError(f"{target}: {error.strerror}: expected to write it") from error
        finally:
            part.unlink(missing_ok=True)

    def _content(self) -> Mapping[str, bytes]:
        words = {"edge": self.edge, "image": self.image, "run": self.run, "broker": self.broker}
        arguments = edge_arguments(self.experiment, self.broker, self.run, self.edge, has_certs=bool(self.files))
        command = yaml.safe_dump(list(arguments), default_flow_style=True, width=2**30).strip()
        texts = {
            "compose.yaml": Template(_COMPOSE).substitute(words, arguments=command),
            "start.sh": Template(_START).substitute(words),
            "README.txt": Template(_README).substitute(words, name=self.experiment.name),
            EXPERIMENT: yaml.safe_dump(self.experiment.model_dump(mode="json"), sort_keys=False),
        }
        return {name: text.encode() for name, text in texts.items()} | dict(self.files)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = _entry(name, len(data))
    entry.mode = 0o755 if name.endswith(".sh") else 0o600 if name.endswith(".key") else 0o644
    archive.addfile(entry, io.BytesIO(data))


def _add_image(archive: tarfile.TarFile, name: str, image: str) -> None:
    """Adds the image of this machine, which is larger than memory may be: by way of a file."""
    with TemporaryFile() as file:
        found = Image.find(image)
        with told("docker", f"room for the image {image}"):
            for block in found.content():
                file.write(block)
        entry = _entry(name, file.tell())
        file.seek(0)
        archive.addfile(entry, file)


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime = size, int(time.time())
    return entry
