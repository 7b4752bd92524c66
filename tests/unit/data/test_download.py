"""Downloads over real HTTP on loopback: fetched once by many processes, checked, and failing with a name."""

import bz2
import gzip
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import idx
import numpy as np
import pytest

from common.data import standard
from common.data.reservation import reserved
from common.errors import DataError
from common.experiment import Data

PREFIXES = ("train", "t10k")
SMALL = idx.small(standard.MNIST, "MNIST/raw", PREFIXES)

LOADER = """
import sys
import idx
from torchvision.datasets import MNIST
from common.data import standard
from common.experiment import Data

mirror, root, *resources = sys.argv[1:]
MNIST.mirrors, MNIST.resources = [mirror], [tuple(item.split("=")) for item in resources]
print("ready", flush=True)
sys.stdin.readline()
small = idx.small(standard.MNIST, "MNIST/raw", ("train", "t10k"))
records = small.train(Data(name="mnist", root=root, download=True))
print(len(records), int(records.inputs.sum()), flush=True)
"""

HOLDER = """
import sys
from pathlib import Path
from common.data.reservation import reserved

with reserved(Path(sys.argv[1]), "mnist"):
    print("held", flush=True)
    sys.stdin.readline()
"""


@dataclass
class Mirror:
    """A server with the four packed files; counts what was fetched."""

    files: dict[str, bytes]
    pixels: int
    address: str = ""
    fetched: list[str] = field(default_factory=list)

    def resources(self) -> list[tuple[str, str]]:
        return [(name, hashlib.md5(content).hexdigest()) for name, content in self.files.items()]


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    written = idx.write(tmp_path / "origin", PREFIXES, 10)
    packed = {f"{path.name}.gz": gzip.compress(path.read_bytes(), mtime=0) for path in (tmp_path / "origin").iterdir()}
    source = Mirror(packed, int(written["train"][0].sum()))

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Method") == "HEAD":  # torchvision looks for a redirection first, in this way
                return self._answer(b"")
            source.fetched.append(self.path[1:])
            time.sleep(0.2)  # long enough for another process to come along
            return self._answer(source.files[self.path[1:]])

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        source.address = f"http://127.0.0.1:{server.server_port}/"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield source
        finally:
            server.shutdown()
            thread.join()


def _start(script: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() in ("ready", "held")
    return process


def _go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_two_processes_fetch_every_file_once(mirror: Mirror, tmp_path: Path) -> None:
    root = tmp_path / "new" / "folder"
    resources = [f"{name}={md5}" for name, md5 in mirror.resources()]
    processes = [_start(LOADER, mirror.address, str(root), *resources) for _ in range(2)]
    for process in processes:
        _go_on(process)
    for process in processes:
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert output.split() == ["30", str(mirror.pixels)]
    assert sorted(mirror.fetched) == sorted(mirror.files)


@pytest.fixture
def patched(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    """torchvision's own table of addresses, pointed at the server on loopback."""
    from torchvision.datasets import MNIST

    monkeypatch.setattr(MNIST, "mirrors", [mirror.address])
    monkeypatch.setattr(MNIST, "resources", mirror.resources())
    return mirror


def test_what_is_there_is_not_fetched_again(patched: Mirror, tmp_path: Path) -> None:
    data = Data(name="mnist", root=str(tmp_path / "data"), download=True)
    assert SMALL.train(data).inputs.sum() == patched.pixels
    patched.fetched.clear()
    assert len(SMALL.test(data)) == 12
    offline = data.model_copy(update={"download": False})
    assert np.array_equal(SMALL.train(offline).inputs, SMALL.train(data).inputs)
    assert patched.fetched == []


def test_a_set_that_torchvision_reads_is_fetched_too(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torchvision.datasets import USPS

    rng = np.random.default_rng(4)
    parts = {}
    for part, name, count in (("train", "usps.bz2", 5), ("test", "usps.t.bz2", 3)):
        pixels, labels = rng.integers(-1, 2, (count, 256)), rng.integers(1, 11, count)
        lines = [
            " ".join([str(label), *(f"{place}:{value}" for place, value in enumerate(row, 1))])
            for label, row in zip(labels, pixels, strict=True)
        ]
        mirror.files[name] = bz2.compress("\n".join(lines).encode())
        parts[part] = (mirror.address + name, name, hashlib.md5(mirror.files[name]).hexdigest())
    monkeypatch.setattr(USPS, "split_list", parts)
    small = replace(standard.USPS, sizes=(5, 3))
    data = Data(name="usps", root=str(tmp_path / "data"), download=True)
    assert len(small.train(data)) == 5
    assert mirror.fetched == ["usps.bz2"]
    assert np.array_equal(small.test(data).inputs[:, 0].reshape(3, 256), (pixels + 1) * 255 // 2)
    assert np.array_equal(small.test(data.model_copy(update={"download": False})).labels, labels - 1)
    assert mirror.fetched == ["usps.bz2", "usps.t.bz2"]


def test_offline_fetches_nothing(patched: Mirror, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not there"):
        SMALL.train(Data(name="mnist", root=str(tmp_path)))
    assert patched.fetched == []


def test_a_wrong_checksum_is_refused(patched: Mirror, tmp_path: Path) -> None:
    patched.files["train-labels-idx1-ubyte.gz"] = gzip.compress(b"something else", mtime=0)
    with pytest.raises(
        DataError, match=r"mnist in .*: Error downloading train-labels-idx1-ubyte.gz: .*corrupted.*by hand"
    ):
        SMALL.train(Data(name="mnist", root=str(tmp_path / "data"), download=True))


def test_an_unreachable_server_is_a_data_error(
    patched: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torchvision.datasets import MNIST

    monkeypatch.setattr(MNIST, "mirrors", ["http://127.0.0.1:1/"])
    with pytest.raises(DataError, match=r"mnist in .*: .*Connection refused"):
        SMALL.train(Data(name="mnist", root=str(tmp_path / "data"), download=True))


def test_who_comes_second_waits_and_then_goes_on(tmp_path: Path) -> None:
    holder = _start(HOLDER, str(tmp_path))
    try:
        held = pytest.raises(DataError, match=rf"{tmp_path}/\.mnist\.lock: held by another process for 0\.2 s")
        with held, reserved(tmp_path, "mnist", patience=0.2):
            raise AssertionError("two processes inside")
        with reserved(tmp_path, "usps", patience=0.2):
            pass  # another set has a lock of its own
        threading.Timer(0.3, _go_on, [holder]).start()
        begin = time.monotonic()
        with reserved(tmp_path, "mnist", patience=30):
            assert time.monotonic() - begin > 0.2
    finally:
        holder.communicate(timeout=30)


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    holder = _start(HOLDER, str(tmp_path))
    holder.kill()
    holder.communicate(timeout=30)
    with reserved(tmp_path, "mnist", patience=1):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match=rf"data\.root: {tmp_path}/file/set: .*set data\.download: false"):
        SMALL.train(Data(name="mnist", root=str(tmp_path / "file" / "set"), download=True))
