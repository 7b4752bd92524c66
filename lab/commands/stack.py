"""`mapa stack FILE`: writes a stack file, with which Docker Swarm runs an experiment."""

from __future__ import annotations

import argparse
from pathlib import Path

from lab.commands.experiment import add_experiment

HELP = "a stack file for Docker Swarm"


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_experiment(parser)
    parser.add_argument("--edges", type=int, metavar="N", help="number of edges (the same as --set data.edges=N)")
    parser.add_argument("--run", required=True, metavar="ID", help="run id, [a-z0-9-]")
    parser.add_argument("--certs", type=Path, required=True, metavar="DIR", help="folder of certificates (mapa certs)")
    parser.add_argument("--cloud-image", default="mapa-cloud", metavar="NAME", help="default: mapa-cloud")
    parser.add_argument("--edge-image", default="mapa-edge", metavar="NAME", help="default: mapa-edge")
    parser.add_argument("--out", type=Path, default=Path("stack"), metavar="DIR", help="default: stack")


def run(arguments: argparse.Namespace) -> int:
    """Writes it; 0."""
    from common.experiment import load  # noqa: PLC0415 - help comes without what is heavy
    from lab.stack import write_stack  # noqa: PLC0415

    images = {"cloud": arguments.cloud_image, "edge": arguments.edge_image}
    edges = [] if arguments.edges is None else [f"data.edges={arguments.edges}"]
    experiment = load(arguments.file, [*arguments.overrides, *edges])
    path = write_stack(experiment, arguments.run, arguments.certs, images, arguments.out)
    print(f"next: docker stack deploy -c {path} {arguments.run}")
    return 0
