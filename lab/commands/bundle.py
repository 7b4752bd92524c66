"""`mapa bundle edge NAME FILE`: one archive with which somebody else can start an edge by one command."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from common.errors import ConfigError, Fault
from lab.commands.experiment import add_experiment

HELP = "one archive that starts an edge elsewhere"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("role", choices=["edge"], help="what it starts")
    parser.add_argument("name", metavar="NAME", help="which, such as edge-0001")
    add_experiment(parser)
    parser.add_argument("--run", required=True, metavar="ID", help="run id, [a-z0-9-]")
    parser.add_argument("--broker", required=True, metavar="HOST[:PORT]", help="the broker, as that edge reaches it")
    parser.add_argument("--certs", type=Path, metavar="DIR", help="folder of certificates (mapa certs)")
    parser.add_argument("--plain", action="store_true", help="no certificates: only in a network that you trust")
    parser.add_argument("--image", default="mapa-edge", metavar="NAME", help="the edge's image (default: mapa-edge)")
    parser.add_argument("--with-image", action="store_true", help="put the image into the archive (1 GB and more)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the archive (default: NAME.tar.gz)")


def run(arguments: argparse.Namespace) -> int:
    """Writes the archive; 0."""
    from common.experiment import load  # noqa: PLC0415 - help comes without what is heavy
    from lab.bundle import Bundle  # noqa: PLC0415
    from lab.credentials import credentials  # noqa: PLC0415

    if arguments.plain == (arguments.certs is not None):
        raise ConfigError(Fault("--certs", arguments.certs, "a folder of certificates, or --plain"))
    experiment = load(arguments.file, arguments.overrides)
    found = Bundle(experiment, arguments.name, arguments.run, arguments.broker, arguments.image, {})
    found.check()
    files = credentials(arguments.certs, [arguments.name])[arguments.name]
    target = arguments.out or Path(f"{arguments.name}.tar.gz")
    replace(found, files=files).write(target, with_image=arguments.with_image)
    print(f"{target}: to be unpacked there (tar xzf {target.name}) and started by ./{arguments.name}/start.sh")
    if not arguments.with_image:
        print(f"it needs the image {arguments.image} there (or make it --with-image)")
    if files:
        print("it holds the edge's private key: hand it over by a way that nobody else reads, and delete it here")
    return 0
