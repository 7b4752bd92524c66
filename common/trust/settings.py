"""Mosquitto's settings for a broker that lets in whom the authority knows, written for versions 2.0 and 2.1."""

from __future__ import annotations

PORT, PASSWORD_PORT, HEALTH_PORT = 8883, 8884, 1880
"""With a certificate; with a password; the health check, from the broker's own machine only."""
_GENERAL = """\
# Written by mapa certs. Changes are lost: put settings of your own into another file, in the folder that
# include_dir of your main configuration names.
per_listener_settings true

# Small packets leave at once; without this (and the same in our clients) an exchange takes 40 ms longer.
set_tcp_nodelay true

# Messages larger than 1 MB travel in chunks; version 2.1 and later would close the connection at 2 MB.
max_packet_size 67108864

# An overfull queue drops messages and still reports success: bound it by bytes, not by the default 1000 messages.
max_inflight_messages 20
max_queued_messages 50000
max_queued_bytes 536870912

# The broker's state is a cache: whoever reconnects asks again.
persistence false
persistent_client_expiration 1h
max_keepalive 600
sys_interval 10

# The health check connects every few seconds: not worth a line each.
connection_messages false
log_dest stdout
log_type error
log_type warning
log_type notice
"""
_TLS = """\
allow_anonymous false
acl_file {folder}/acl
cafile {folder}/ca.crt
certfile {folder}/broker.crt
keyfile {folder}/broker.key
crlfile {folder}/crl.pem
tls_version tlsv1.2
# One connection for each identity: nobody can hold the memory of many sessions, nor cut off somebody else's.
use_username_as_clientid true
"""
_CERTIFIED = """
# Who has a certificate of our authority: its name is the user name.
listener {port}{bind}
require_certificate true
use_identity_as_username true
"""
_KNOWN = """
# Who has a password.
listener {port}{bind}
password_file {folder}/passwd
"""
_HEALTH = """
# For the health check, which has no identity and sees two topics.
listener {port} 127.0.0.1
allow_anonymous true
acl_file {folder}/acl.health
"""


def settings(
    folder: str,
    *,
    port: int = PORT,
    password_port: int | None = None,
    health_port: int | None = HEALTH_PORT,
    bind: str | None = None,
) -> str:
    """The settings file.

    Args:
        folder: where the other files are on the broker's machine.
        port: for clients with a certificate.
        password_port: for clients with a password; None: there are none.
        health_port: for the health check on the loopback; None: there is none.
        bind: the address to listen on; None: all.
    """
    where = f" {bind}" if bind else ""
    parts = [_GENERAL, _CERTIFIED.format(port=port, bind=where), _TLS.format(folder=folder)]
    if password_port is not None:
        parts += [_KNOWN.format(port=password_port, bind=where, folder=folder), _TLS.format(folder=folder)]
    if health_port is not None:
        parts.append(_HEALTH.format(port=health_port, folder=folder))
    return "".join(parts)
