"""The way to a Docker engine over TLS: its files here, and what its errors mean to the person who has to mend them."""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import docker
from docker.constants import DEFAULT_DOCKER_API_VERSION
from docker.errors import DockerException
from docker.tls import TLSConfig
from requests.exceptions import RequestException
from requests.utils import get_environ_proxies

from common.address import Tls
from common.errors import ConfigError, DeployError, Fault
from common.tls import Trouble, context
from lab.told import root_of

AUTHORITY, CERTIFICATE, KEY = "ca.pem", "cert.pem", "key.pem"
"""Names of the files, as the docker command has them in DOCKER_CERT_PATH."""
_CLIENTS = "one that its authority (--tlscacert there) has made for a client (extendedKeyUsage clientAuth)"
_TROUBLES = (
    (r"certificate has expired", "the engine's certificate has expired",
     "a new one there, or the right time on this machine"),
    (r"certificate is not yet valid", "the engine's certificate is not valid yet", "the right time on both machines"),
    (r"(Hostname|IP address) mismatch", "its certificate is not for this name",
     "one that holds it (subjectAltName), or the name that it holds in `engine`"),
    (r"CERTIFICATE_VERIFY_FAILED", "the engine's certificate is not from the authority in {folder}/ca.pem",
     "the ca.pem of the authority that made it"),
    (r"ALERT_CERTIFICATE_EXPIRED", "it finds {folder}/cert.pem out of date",
     "a new one, or the right time on both machines"),
    (r"ALERT_", "it refuses {folder}/cert.pem", _CLIENTS),
    (r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE", "it does not speak TLS on this port",
     "dockerd --tlsverify, whose port is 2376 by default"),
)  # fmt: skip
"""What OpenSSL says, in order of precedence; what that means; what was expected."""


def file_faults(where: str, folder: str) -> Sequence[Fault]:
    """What is wrong with the files in a folder; `where`: of the hosts file, for their names."""
    ca, certificate, key = (str(Path(folder) / name) for name in (AUTHORITY, CERTIFICATE, KEY))
    try:
        context(Tls(ca, certificate, key))
    except ConfigError as error:
        return [replace(fault, path=where) for fault in error.faults]
    return ()


def connect(where: str, url: str, folder: str, timeout: int) -> docker.DockerClient:
    """A client of the engine at `url` (tcp://host:port), which answers.

    Args:
        where: the host, for errors.
        url: of the engine.
        folder: with the files.
        timeout: seconds for an answer.

    Raises:
        DeployError: one side does not trust the other.
        DockerException, RequestException, OSError: there is no engine.
    """
    try:
        asked = _client(url, folder, timeout, DEFAULT_DOCKER_API_VERSION)
        with asked.api:
            version = _version_of(asked)
        return _client(url, folder, timeout, version)
    except (DockerException, RequestException, OSError) as error:
        trouble = _trouble_of(root_of(error))
        if trouble is None:
            raise
        raise DeployError(f"{where}: {trouble.reason.format(folder=folder)}: expected {trouble.expected}") from error


def _client(url: str, folder: str, timeout: int, version: str) -> docker.DockerClient:
    """One that has not said anything yet, as `version` is given."""
    ca, certificate, key = (str(Path(folder) / name) for name in (AUTHORITY, CERTIFICATE, KEY))
    tls = TLSConfig(client_cert=(certificate, key), ca_cert=ca, verify=True)
    client = docker.DockerClient(base_url=url, tls=tls, timeout=timeout, version=version)
    # REQUESTS_CA_BUNDLE in the environment would take the place of the engine's own authority.
    client.api.trust_env = False
    client.api.proxies.update(get_environ_proxies(client.api.base_url))
    return client


def _version_of(client: docker.DockerClient) -> str:
    """The interface that the engine speaks."""
    answer = client.version(api_version=False)
    if not isinstance(answer, dict) or not isinstance(answer.get("ApiVersion"), str):
        raise DockerException("it answers, but names no ApiVersion")
    return str(answer["ApiVersion"])


def _trouble_of(error: BaseException) -> Trouble | None:
    """What an error means, if it is about trust."""
    if isinstance(error, ssl.SSLEOFError | ConnectionResetError | BrokenPipeError):
        return Trouble("it hangs up on {folder}/cert.pem without a word", _CLIENTS)
    if not isinstance(error, ssl.SSLError):
        return None
    return next((Trouble(reason, cure) for pattern, reason, cure in _TROUBLES if re.search(pattern, str(error))), None)
