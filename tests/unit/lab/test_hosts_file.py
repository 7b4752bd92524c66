"""The hosts file: what is read, and what is refused before anything is started."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from common.errors import ConfigError
from common.experiment import parse
from common.trust.folder import Folder
from lab.deploy import check_places
from lab.hosts import load

HERE: dict[str, Any] = {"name": "here", "engine": "unix:///var/run/docker.sock", "edges": ["edge-0001"]}
THERE: dict[str, Any] = {"name": "there", "engine": "ssh://mapa@there.example.org:2222", "edges": ["edge-0002"]}
SOUND: dict[str, Any] = {"broker": "broker.example.org:8883", "certs": "certs", "hosts": [HERE, THERE]}
TCP = {"name": "far", "engine": "tcp://10.0.0.7:2376", "edges": ["edge-0003"]}


def write(folder: Path, content: Any) -> Path:
    path = folder / "hosts.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def identity(folder: Path) -> Path:
    """The files for an engine behind TLS, by `mapa certs`."""
    made = Folder(folder.parent / f"{folder.name}-authority")
    made.begin()
    folder.mkdir()
    for name, file in (("ca.crt", "ca.pem"), ("cloud.crt", "cert.pem"), ("cloud.key", "key.pem")):
        shutil.copy(made.root / name, folder / file)
    return folder


def test_folders_here_are_beside_the_file(tmp_path: Path) -> None:
    identity(tmp_path / "far")
    hosts = load(write(tmp_path, SOUND | {"hosts": [HERE, TCP | {"tls": "far"}]}))
    assert hosts.certs == str(tmp_path / "certs")
    assert hosts.hosts[1].tls == str(tmp_path / "far")
    assert hosts.edges == ["edge-0001", "edge-0003"]
    assert hosts.image == "mapa-edge"


@pytest.mark.parametrize(
    ("change", "clue"),
    [
        ({"broker": "broker:0"}, "broker: 'broker:0'"),
        ({"certs": None}, "certs: None: expected a folder made by mapa certs"),
        ({"hosts": []}, "hosts.yaml.hosts"),
        ({"image": "mapa-edge; reboot"}, "hosts.yaml.image: 'mapa-edge; reboot'"),
        ({"colour": "red"}, "hosts.yaml.colour: 'red': expected no such key"),
        ({"hosts": [HERE, HERE | {"edges": ["edge-0009"]}]}, "hosts.name: 'here': expected named once"),
        ({"hosts": [HERE, THERE | {"edges": ["edge-0001"]}]}, "hosts.edges: 'edge-0001': expected named once"),
        ({"hosts": [TCP]}, "far.tls: None: expected a folder with ca.pem"),
        ({"hosts": [THERE | {"tls": "x"}]}, "there.tls: 'x': expected none with ssh"),
        ({"hosts": [HERE | {"engine": "ssh://-oProxyCommand=evil"}]}, "hosts.0.engine"),
        ({"hosts": [HERE | {"engine": "http://here:2375"}]}, "hosts.0.engine"),
        ({"hosts": [HERE | {"edges": ["cloud"]}]}, "hosts.0.edges.0"),
        ({"hosts": [HERE | {"data": "records"}]}, "hosts.0.data"),
        ({"hosts": [HERE | {"data": "/records:/etc"}]}, "hosts.0.data"),
        ({"hosts": [HERE | {"cpus": 0.0}]}, "hosts.0.cpus"),
        ({"hosts": [HERE | {"memory": "lots"}]}, "hosts.0.memory"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: dict[str, Any], clue: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, SOUND | change))
    assert clue in str(caught.value)


def test_files_for_tls_are_looked_at_before_anything_is_started(tmp_path: Path) -> None:
    folders = [identity(tmp_path / name) for name in ("lacks", "damaged", "swapped")]
    (folders[0] / "key.pem").unlink()
    (folders[1] / "ca.pem").write_text("rubbish")
    shutil.copy(tmp_path / "lacks-authority" / "cloud.key", folders[2] / "key.pem")
    hosts = [TCP | {"name": folder.name, "edges": [f"edge-000{place}"], "tls": folder.name}
             for place, folder in enumerate(folders)]  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, SOUND | {"hosts": hosts}))
    told = str(caught.value).splitlines()
    assert "key.pem': expected a certificate and its key, in PEM (No such file" in told[0]
    assert f"damaged.tls: '{folders[1]}/ca.pem': expected the authority's certificate, in PEM (" in told[1]
    assert f"expected the key that {folders[2]}/cert.pem was made for" in told[2]


def test_edges_and_data_have_to_fit_the_experiment(tmp_path: Path) -> None:
    data = {"name": "npz", "root": "/elsewhere/mine.npz", "edges": 1}
    experiment = parse(
        {"name": "x", "data": data, "model": {"name": "softmax"}, "algorithm": {"name": "asgd"}, "stop": {"updates": 1}}
    )
    with pytest.raises(ConfigError) as caught:
        check_places(experiment, load(write(tmp_path, SOUND)))
    assert "hosts.edges: 'edge-0002': expected one of edge-0001 to edge-0001" in str(caught.value)
    assert "data.root: '/elsewhere/mine.npz': expected a folder below data/" in str(caught.value)
