"""What is recorded is what an edge sends; what is damaged, missing or of another kind is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from common.errors import ConfigError, DataError, WireError
from common.experiment import load
from common.messages import Update
from common.models import build_model
from common.wire import Limits, decode
from lab.attacks import inversion, matching, recording
from lab.attacks.inversion import invert
from lab.attacks.recording import Plan, read, record
from lab.attacks.victim import Noise, Victim, seen

YAML = Path(inversion.__file__).with_name("inversion.yaml")
BASE = load(YAML)


def plan(*models: str, epsilons: tuple[float | None, ...] = (None,), records: int = 1) -> Plan:
    return Plan(models, epsilons, "paper", records, seed=2)


def update_of(path: Path) -> Update:
    message = decode(path.read_bytes(), Limits()).message
    assert isinstance(message, Update)
    return message


@pytest.mark.parametrize("model", ["softmax", "cnn"])
def test_the_bytes_are_the_edges_own(tmp_path: Path, model: str) -> None:
    """Read by another library, they hold the record's gradient at the parameters sent, plus the l2 term."""
    base = load(YAML, ["model.l2=0.5"])
    record(base, plan(model), tmp_path)
    index, truth = read(tmp_path)
    assert truth is not None
    spec = build_model(base.model.model_copy(update={"name": model}), index.shape, 10)
    parameters = safetensors.numpy.load_file(tmp_path / index.questions[model])
    flat = np.concatenate([parameters[name].ravel() for name in sorted(parameters)])
    released = safetensors.numpy.load_file(tmp_path / index.releases[0].file)
    sent = np.concatenate([released[name].ravel() for name in sorted(released)])
    expected = spec.gradient_sum(flat, spec.prepare(truth.pictures * 16, 16.0), truth.labels)
    np.testing.assert_allclose(sent, expected + 0.5 * flat, rtol=1e-4, atol=1e-5)
    sight = seen(*((tmp_path / name).read_bytes() for name in (index.questions[model], index.releases[0].file)), 0.5)
    np.testing.assert_allclose(sight.gradient.flat, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("noise", "mechanism", "length"),
    [
        ("paper", "paper", lambda d: 2 * math.sqrt(2)),  # of the noise, root mean square, for clip 1 and epsilon 1
        ("rigorous", "spherical-laplace", lambda d: 2 * math.sqrt(d * (d + 1))),
        ("gaussian", "gaussian", lambda d: 2 * math.sqrt(d * (d + 1))),
    ],
)
def test_the_noise_is_the_declared_mechanisms(noise: Noise, mechanism: str, length: Callable[[int], float]) -> None:
    base = load(YAML, ["privacy.clip_norm=1.0"])
    victim = Victim(base, "logistic", noise, 1.0)
    plain = Victim(base, "logistic", noise, None)
    picture = np.full((1, 8, 8), 3, np.uint8)
    size = victim.model.layout.size
    clean = decode(plain.answer(picture, 16.0, 1, 0), Limits()).message.tensors.flat
    squares = []
    for number in range(300):
        message = decode(victim.answer(picture, 16.0, 1, number), Limits()).message
        assert message.event.mechanism == mechanism
        squares.append(float(np.square(message.tensors.flat - clean, dtype=np.float64).sum()))
    found, error = np.mean(squares), np.std(squares) / math.sqrt(len(squares))
    assert abs(found - length(size) ** 2) < 4 * error
    assert abs(found - (1.5 * length(size)) ** 2) > 4 * error  # the control: half as much again is told apart


def test_no_two_releases_share_their_noise(tmp_path: Path) -> None:
    record(BASE, plan("softmax", epsilons=(0.02, 0.01), records=2), tmp_path)
    flats = [update_of(tmp_path / release.file).tensors.flat for release in read(tmp_path)[0].releases]
    alike = np.corrcoef(np.stack(flats))[np.triu_indices(4, 1)]
    assert np.abs(alike).max() < 0.3


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (2, 9, 30)])
def test_the_twin_has_the_gradient_of_the_shipped_network(shape: tuple[int, int, int]) -> None:
    import torch

    rng = np.random.default_rng(4)
    model = build_model(BASE.model.model_copy(update={"name": "cnn"}), shape, 10)
    parameters = model.init(rng)
    picture = rng.random((1, *shape)).astype(np.float32)
    expected = model.gradient_sum(parameters.flat, model.prepare(picture, 1.0), np.array([7]))
    twin = matching.FiveLayersTwin(parameters, shape)
    found = twin.gradient(torch.from_numpy(picture), 7).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_a_recording_without_the_truth_is_attacked_all_the_same(tmp_path: Path) -> None:
    record(BASE, plan("svm"), tmp_path)
    known = invert(tmp_path, 10, 1)
    (tmp_path / recording.TRUTH).unlink()
    result = invert(tmp_path, 10, 1)
    assert result.truth is None
    assert result.outcomes[0].score is None
    np.testing.assert_array_equal(result.outcomes[0].picture, known.outcomes[0].picture)


def test_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"recording\.json"):
        invert(tmp_path, 10, 1)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"releases": []}, "releases"),
        ({"mechanism": "magic"}, "mechanism"),
        ({"questions": {}}, "questions"),
        ({"questions": {"svm": "../secret.safetensors"}}, "questions"),
        ({"shape": [1, 8]}, "shape"),
        ({"extra": 1}, "extra"),
    ],
)
def test_a_damaged_index_is_refused(tmp_path: Path, change: dict[str, object], expected: str) -> None:
    record(BASE, plan("svm"), tmp_path)
    path = tmp_path / recording.INDEX
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ConfigError, match=expected):
        invert(tmp_path, 10, 1)


def test_a_damaged_message_is_refused(tmp_path: Path) -> None:
    record(BASE, plan("svm", "cnn"), tmp_path)
    index, _ = read(tmp_path)
    files = {release.model: tmp_path / release.file for release in index.releases}
    sound = files["svm"].read_bytes()
    question = (tmp_path / index.questions["svm"]).read_bytes()
    for wrong in (sound[:-4], b"", question, files["cnn"].read_bytes()):
        files["svm"].write_bytes(wrong)
        with pytest.raises(WireError):
            invert(tmp_path, 10, 1)
    files["svm"].unlink()
    with pytest.raises(WireError, match="recorded message"):
        invert(tmp_path, 10, 1)


def test_messages_of_another_model_are_refused(tmp_path: Path) -> None:
    record(BASE, plan("svm", "cnn"), tmp_path)
    path = tmp_path / recording.INDEX
    content = json.loads(path.read_text())
    content["questions"] = dict(
        zip(("svm", "cnn"), (content["questions"][name] for name in ("cnn", "svm")), strict=True)
    )
    for release in content["releases"]:
        release["model"] = {"svm": "cnn", "cnn": "svm"}[release["model"]]
    for only in (0, 1):
        path.write_text(json.dumps(content | {"releases": [content["releases"][only]]}))
        with pytest.raises(WireError, match="expected"):
            invert(tmp_path, 10, 1)


def test_a_truth_of_other_pictures_is_refused(tmp_path: Path) -> None:
    record(BASE, plan("svm"), tmp_path)
    path = tmp_path / recording.TRUTH
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **arrays | {"pictures": arrays["pictures"][:, :, :4]})
    with pytest.raises(DataError, match="shapes"):
        invert(tmp_path, 10, 1)


def test_records_that_are_no_pictures_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    rows = np.random.default_rng(1).random((20, 5)).astype(np.float32)
    labels = np.arange(20) % 2
    np.savez(path, x_train=rows, y_train=labels, x_test=rows, y_test=labels)
    base = load(YAML, ["data.name=npz", f"data.root={path}"])
    with pytest.raises(ConfigError, match="pictures"):
        record(base, plan("softmax"), tmp_path / "out")


def test_more_records_than_there_are_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--records"):
        record(BASE, plan("softmax", records=1437), tmp_path)
