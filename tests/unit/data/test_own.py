"""Every edge with a file of its own: what each host needs, what must agree, and what is said of files elsewhere."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from common.data import absent, deal, describe, load_apart, load_shard, load_test, load_train, sizes
from common.errors import ConfigError, DataError
from common.experiment import Data, Experiment, parse
from edge.build import hold
from lab.check import check_experiment
from lab.launch import Request, launch

IDS = ("edge-0001", "edge-0002", "edge-0003")
COUNTS = {"edge-0001": 40, "edge-0002": 25, "edge-0003": 40, "test": 30}


def write(folder: Path, name: str, **changed: Any) -> Path:
    """One file: floats of 6 features in 3 classes, each record marked by its file."""
    rng = np.random.default_rng(sorted(COUNTS).index(name))
    part, count = "test" if name == "test" else "train", COUNTS[name]
    labels = np.arange(count) % (3 if name != "edge-0002" else 2)  # who sees no label 2 must know of it all the same
    arrays = {
        f"x_{part}": rng.random((count, 6), dtype=np.float32) + sorted(COUNTS).index(name),
        f"y_{part}": labels,
        "classes": np.array(3),
    } | changed
    path = folder / f"{name}.npz"
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in COUNTS:
        write(tmp_path, name)
    return tmp_path


def data(folder: Path | None, **settings: Any) -> Data:
    root = None if folder is None else str(folder)
    return Data.model_validate({"name": "npz", "root": root, "edges": 3, "partition": {"kind": "own"}, **settings})


def experiment(folder: Path) -> Experiment:
    return parse(
        {
            "name": "own",
            "data": data(folder).model_dump(),
            "model": {"name": "softmax"},
            "algorithm": {"name": "audp", "batch_size": 5},
            "privacy": {"noise_multiplier": 1.0},
            "stop": {"updates": 3},
        }
    )


def test_each_edge_gets_its_file(folder: Path) -> None:
    chosen = data(folder)
    assert describe(chosen).shape == (6,)
    assert describe(chosen).classes == 3
    assert sizes(chosen, 1) == {name: COUNTS[name] for name in IDS}
    assert absent(chosen) == ""
    for number, name in enumerate(IDS):
        shard = load_shard(chosen, 1, name)
        assert len(shard) == COUNTS[name]
        assert shard.classes == 3
        assert (np.floor(shard.inputs) == number).all()
        with pytest.raises(ValueError, match="read-only"):
            shard.inputs[0] = 0
    assert (np.floor(load_test(chosen).inputs) == 3).all()


def test_the_whole_is_dealt_back_to_the_files(folder: Path) -> None:
    """For who looks at all records of one host, such as an attack."""
    chosen = data(folder)
    whole = load_train(chosen)
    parts = deal(whole, chosen, 7)
    assert len(whole) == 105
    for name, part in zip(IDS, parts, strict=True):
        assert np.array_equal(whole.inputs[part], load_shard(chosen, 1, name).inputs)
        assert np.array_equal(whole.labels[part], load_shard(chosen, 1, name).labels)
    apart, counts = load_apart(chosen, 7)
    assert counts == sizes(chosen, 7)
    assert np.array_equal(apart.inputs, whole.inputs)


@pytest.mark.parametrize("kind", ["iid", "dirichlet", "shards"])
def test_what_is_dealt_can_be_had_by_edge_or_edge_after_edge(kind: str) -> None:
    chosen = Data.model_validate({"name": "digits", "edges": 3, "partition": {"kind": kind}})
    shards = [load_shard(chosen, 7, name) for name in IDS]
    apart, counts = load_apart(chosen, 7)
    assert counts == sizes(chosen, 7) == dict(zip(IDS, map(len, shards), strict=True))
    assert np.array_equal(apart.inputs, np.concatenate([shard.inputs for shard in shards]))
    assert np.array_equal(apart.labels, np.concatenate([shard.labels for shard in shards]))
    assert sorted(map(bytes, apart.inputs)) == sorted(map(bytes, load_train(chosen).inputs))


def test_halves(folder: Path) -> None:
    chosen = data(folder, classes="halves")
    shard = load_shard(chosen, 1, "edge-0001")
    assert (describe(chosen).classes, shard.classes) == (2, 2)
    assert np.array_equal(shard.labels, load_shard(data(folder), 1, "edge-0001").labels >= 2)


def test_an_edge_needs_only_its_own_file(folder: Path) -> None:
    for name in ("edge-0001", "edge-0003", "test"):
        (folder / f"{name}.npz").unlink()
    held = hold(experiment(folder), "edge-0002")
    assert len(held.shard) == 25
    assert held.model.classes == 3  # of which it has two
    assert (held.owner.edge, held.owner.records) == ("edge-0002", 25)
    with pytest.raises(DataError) as caught:
        hold(experiment(folder), "edge-0003")
    expected = "not there: expected the records of edge-0003, in arrays x_train, y_train, classes"
    assert str(caught.value) == f"{folder}/edge-0003.npz: {expected}"


def test_the_cloud_needs_only_the_test_file(folder: Path) -> None:
    for name in IDS:
        (folder / f"{name}.npz").unlink()
    assert len(load_test(data(folder))) == 30
    assert sizes(data(folder), 1) == {}
    checked = check_experiment(experiment(folder))
    assert "3, 0 here with 0 records (own)" in checked.text()
    (folder / "test.npz").unlink()
    with pytest.raises(DataError, match=rf"{folder}: no file of an edge: expected edge-0001\.npz to edge-0003\.npz or"):
        describe(data(folder))


def test_a_check_says_what_is_elsewhere(folder: Path) -> None:
    whole = check_experiment(experiment(folder))
    assert not [caution for caution in whole.cautions if "data.root" in caution]
    assert "3, each with 25 to 40 records (own)" in whole.text()
    (folder / "edge-0001.npz").unlink()
    (folder / "test.npz").unlink()
    checked = check_experiment(experiment(folder))
    expected = "data.root: not on this host: test.npz, edge-0001.npz: who needs them will look when it starts"
    assert expected in checked.cautions
    assert "3, 2 here with 25 to 40 records (own)" in checked.text()
    assert absent(data(folder, edges=9)).endswith("edge-0005.npz, edge-0006.npz and 3 more")


def test_a_launch_needs_all(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "edge-0002.npz").unlink()
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump(experiment(folder).model_dump(mode="json")))

    with pytest.raises(DataError, match=rf"data.root: {folder}: without edge-0002.npz: expected all, to run here"):
        launch(Request(file, out=tmp_path / "run"), sys.stdout)
    assert not (tmp_path / "run").exists()
    assert capsys.readouterr().out == ""


BROKEN: list[tuple[str, Callable[[Path], object], str]] = [
    (
        "no classes",
        lambda folder: write(folder, "edge-0002", classes=None),
        "edge-0002.npz: classes: missing: expected",
    ),
    ("no labels", lambda folder: write(folder, "edge-0002", y_train=None), "edge-0002.npz: y_train: missing: expected"),
    (
        "other classes",
        lambda folder: write(folder, "edge-0002", classes=np.array(4)),
        "edge-0002.npz: classes 4: expected 3, as in test.npz",
    ),
    (
        "other shape",
        lambda folder: write(folder, "edge-0002", x_train=np.zeros((25, 7), np.float32)),
        "edge-0002.npz: records of shape (7,): expected (6,), as in test.npz",
    ),
    (
        "bytes",
        lambda folder: write(folder, "edge-0002", x_train=np.zeros((25, 6), np.uint8)),
        "edge-0002.npz: values from 0 to 255.0: expected 1.0, as in test.npz",
    ),
    (
        "no number",
        lambda folder: write(folder, "edge-0002", classes=np.array([3])),
        "edge-0002.npz: classes: int64 (1,): expected one integer, shape ()",
    ),
    (
        "one class",
        lambda folder: write(folder, "edge-0002", classes=np.array(1)),
        "edge-0002.npz: classes: 1 classes: expected at least 2",
    ),
    (
        "no records",
        lambda folder: write(folder, "edge-0002", x_train=np.zeros((0, 6), np.float32), y_train=np.zeros(0, int)),
        "edge-0002.npz: x_train: (0, 6): expected (n, features)",
    ),
]


@pytest.mark.parametrize(("spoil", "text"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_file_that_does_not_fit_is_named(spoil: Callable[[Path], object], text: str, folder: Path) -> None:
    spoil(folder)
    for ask in (
        lambda: sizes(data(folder), 1),
        lambda: load_shard(data(folder), 1, "edge-0002"),
        lambda: check_experiment(experiment(folder)),
    ):
        with pytest.raises(DataError) as caught:
            ask()
        assert str(caught.value).startswith(f"{folder}/{text}")


def test_a_label_out_of_range_is_named(folder: Path) -> None:
    write(folder, "edge-0003", y_train=np.full(40, 3))
    with pytest.raises(DataError, match=r"edge-0003.npz: y_train: 3: expected labels 0\.\.2"):
        load_shard(data(folder), 1, "edge-0003")


def test_a_root_that_is_no_folder_is_named(folder: Path) -> None:
    wanted = "expected a folder with <edge id>.npz"
    with pytest.raises(DataError, match=f"data.root: None: {wanted}.*; set data.root"):
        describe(data(None))
    with pytest.raises(DataError, match=f"data.root: {folder}/nowhere: not there: {wanted}"):
        describe(data(folder / "nowhere"))
    file = folder / "test.npz"
    with pytest.raises(DataError, match=f"data.root: {file}: a file, which another data.partition.kind .*: {wanted}"):
        describe(data(file))


def test_only_npz_can_be_apart(folder: Path) -> None:
    chosen = Data.model_validate({"name": "digits", "partition": {"kind": "own"}})
    for ask in (describe, load_train, load_test, lambda data: sizes(data, 1), absent):
        with pytest.raises(ConfigError) as caught:
            ask(chosen)
        assert str(caught.value) == (
            "data.partition.kind: 'own': expected a kind that deals digits out; own is for data.name: npz, "
            "with a file for each edge"
        )


def test_a_folder_without_the_kind_is_told_of_it(folder: Path) -> None:
    with pytest.raises(
        DataError, match=r"a folder: expected a \.npz file .*; with a file of its own for each edge, set"
    ):
        describe(Data(name="npz", root=str(folder)))


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        ({"kind": "iid"}, ()),
        ({"kind": "dirichlet", "alpha": 0.1, "minimum": 3}, ()),
        ({"kind": "shards", "shards_per_edge": 3}, ()),
        ({"kind": "iid", "alpha": 0.5}, ()),  # as it is anyway
        ({"kind": "iid", "alpha": 0.1}, ("data.partition.alpha: 0.1: only dirichlet reads it, not iid",)),
        (
            {"kind": "writer", "minimum": 5, "shards_per_edge": 3},
            (
                "data.partition.minimum: 5: only dirichlet reads it, not writer",
                "data.partition.shards_per_edge: 3: only shards reads it, not writer",
            ),
        ),
    ],
)
def test_settings_that_nobody_reads_are_told(partition: dict[str, Any], expected: tuple[str, ...]) -> None:
    content = experiment(Path("unused")).model_dump()
    content["data"] = {"name": "digits", "edges": 3, "partition": partition}
    if partition["kind"] == "writer":
        with pytest.raises(ConfigError, match="a data set that says who wrote what"):
            check_experiment(parse(content))
        return
    cautions = check_experiment(parse(content)).cautions
    assert tuple(caution for caution in cautions if "partition" in caution) == expected
