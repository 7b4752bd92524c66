"""`mapa doctor --broker HOST[:PORT] [--certs DIR] [--as NAME]`: checks what a node needs of its broker, step by step.

Names the first step that fails, why, and what mends it; then the exit code is 4. A process of the same name that is
connected at the moment may be cut off, and comes back.
"""

from __future__ import annotations

import argparse
import sys

from common.access import access_of, declare

HELP = "find out why a node does not get at its broker"
EXIT_SICK = 4


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("--broker", metavar="HOST[:PORT]", help="where the broker is (or MQTT_HOST, MQTT_PORT)")
    parser.add_argument("--as", dest="name", default="cloud", metavar="NAME", help="whose way it is (default: cloud)")
    parser.add_argument("--run", metavar="ID", help="a run that goes on: compares clocks with its cloud")
    declare(parser)


def run(arguments: argparse.Namespace) -> int:
    """Examines."""
    from common.address import Address  # noqa: PLC0415 - what follows loads the client
    from common.errors import ConfigError, Fault  # noqa: PLC0415
    from common.trust import BROKER, NAME  # noqa: PLC0415
    from lab.doctor import Patient, examine  # noqa: PLC0415
    from lab.launch import RUN_ID  # noqa: PLC0415

    environment = arguments.environment
    access, text = access_of(arguments, environment), arguments.broker
    if text is None and (host := environment.get("MQTT_HOST")):
        text = f"{host}:{environment.get('MQTT_PORT') or access.port}"
    if text is None:
        raise ConfigError(Fault("--broker", None, "host or host:port (or set MQTT_HOST)"))
    if not NAME.fullmatch(arguments.name) or arguments.name == BROKER:
        raise ConfigError(Fault("--as", arguments.name, "cloud, or an edge such as edge-0001"))
    if arguments.run is not None and not RUN_ID.fullmatch(arguments.run):
        raise ConfigError(Fault("--run", arguments.run, "the id of a run"))
    patient = Patient(Address.parse(text, access.port), access, arguments.name, arguments.run)
    return 0 if examine(patient, lambda line: print(line, file=sys.stdout, flush=True)) else EXIT_SICK
