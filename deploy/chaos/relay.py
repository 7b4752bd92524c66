"""Carries bytes between nodes and the broker, slower for those that are named: `python relay.py BROKER`.

/tmp/slow says who, as JSON: {"mapa-edge-3": [0.1, 250000]} is 0.1 s more each way, and 250000 bytes a second at most
(null: no limit). It is looked at ten times a second. A node is known by the name that the network's name server has for
its address. Nothing is lost or changed; a full pipe stops whoever fills it, as TCP does.
"""

import asyncio
import json
import socket
import sys
from pathlib import Path

PORTS = (1883, 8883)
SLOW = Path("/tmp/slow")  # noqa: S108 - inside the container
BLOCK, BLOCKS = 16 * 1024, 1024
_Profile = tuple[float, float | None]
_profiles: dict[str, _Profile] = {}


async def watch() -> None:
    """Keeps the profiles as the file says."""
    seen = ""
    while True:
        text = SLOW.read_text() if SLOW.exists() else "{}"
        if text != seen:
            seen = text
            _profiles.clear()
            _profiles.update({name: (delay, rate) for name, (delay, rate) in json.loads(text).items()})
        await asyncio.sleep(0.1)


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str) -> None:
    """One direction of one connection."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(BLOCKS)

    async def take_in() -> None:
        free = newest = 0.0
        while True:
            block = await reader.read(BLOCK)
            delay, rate = _profiles.get(name, (0.0, None))
            free = max(free, loop.time()) + (len(block) / rate if rate else 0.0)
            newest = max(newest, free + delay)
            await waiting.put((newest, block))
            if not block:
                return

    filling = asyncio.create_task(take_in())
    try:
        while True:
            due, block = await waiting.get()
            if not block:
                return
            if (left := due - loop.time()) > 0:
                await asyncio.sleep(left)
            writer.write(block)
            await writer.drain()
    finally:
        filling.cancel()


async def connect(broker: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serves one node: as soon as one side has gone, so does the other."""
    peer, port = writer.get_extra_info("peername"), writer.get_extra_info("sockname")[1]
    loop = asyncio.get_running_loop()
    name = (await loop.getnameinfo(peer[:2], 0))[0].partition(".")[0]
    try:
        far_reader, far_writer = await asyncio.open_connection(broker, port)
    except OSError:
        writer.transport.abort()
        return
    for one in (writer, far_writer):
        one.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ways = [asyncio.create_task(carry(reader, far_writer, name)), asyncio.create_task(carry(far_reader, writer, name))]
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in ways:
        way.cancel()
    await asyncio.gather(*ways, return_exceptions=True)
    for one in (writer, far_writer):
        one.close()  # what was taken in already still leaves


async def main(broker: str) -> None:
    """Listens until it is stopped."""
    servers = [await asyncio.start_server(lambda r, w: connect(broker, r, w), "0.0.0.0", port) for port in PORTS]  # noqa: S104
    await asyncio.gather(watch(), *(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
