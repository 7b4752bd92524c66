"""What somebody sees who looks where he should not: keys, the engine's descriptions, other nodes' names and folders."""

from __future__ import annotations

import json

from docker.models.containers import Container
from stack import SERVICES, Stack


def said(node: Container, *command: str) -> str:
    """What a command prints in the container; the engine now and then loses the output of a very short one."""
    for _ in range(5):
        output: str = node.exec_run(list(command)).output.decode().strip()
        if output:
            return output
    return ""


def key_of(node: Container) -> str:
    """The body of the private key that a container has made for itself."""
    lines = said(node, "sh", "-c", "cat /tmp/identity-*/*.key").splitlines()
    assert lines[0] == "-----BEGIN PRIVATE KEY-----"
    return lines[1]


IMPOSTOR = """\
from pathlib import Path
from common.trust.enrolment import enrol
for name in ("edge-0001", "cloud", "edge-0099", "dashboard"):
    try:
        enrol("certs.mapa.internal:8880", name, Path("/certs/ca.crt"))
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
    else:
        print(f"became {name}")
for place in ("/authority", "/certs", "/mosquitto/guard"):
    print(place, sorted(path.name for path in Path(place).rglob("*")))
"""
"""What a curious edge tries: names of others, and folders of others."""


def told_of(stack: Stack) -> str:
    """All that the engine knows and shows of a project: descriptions of its containers and images, and every log."""
    parts = []
    for service in SERVICES:
        for one in stack.containers(service):
            parts += [json.dumps(one.attrs), json.dumps(one.image.attrs), json.dumps(one.image.history())]
            parts.append(one.logs().decode(errors="replace"))
            parts += [json.dumps(one.top()["Processes"])] if one.status == "running" else []
    return "\n".join(parts)
