from pathlib import Path

import pytest

from common.errors import ConfigError
from common.experiment import Experiment, edge_ids, load, parse

CONTENT = {
    "name": "demo",
    "data": {"name": "digits"},
    "model": {"name": "softmax"},
    "algorithm": {"name": "mapa"},
    "stop": {"updates": 10},
}


def changed(path: str, value: object) -> dict[str, object]:
    content: dict[str, object] = {key: dict(v) if isinstance(v, dict) else v for key, v in CONTENT.items()}
    *sections, key = path.split(".")
    node = content
    for section in sections:
        node = node.setdefault(section, {})  # type: ignore[assignment]
    node[key] = value
    return content


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("surprise", 1, "no such key"),
        ("data.edges", "5", "valid integer"),
        ("data.edges", 0, "greater than or equal to 1"),
        ("privacy.epsilon", 0.0, "greater than or equal to 0.000001"),
        ("privacy.epsilon", -1.0, "greater than or equal to 0.000001"),
        ("privacy.epsilon", 1e300, "less than or equal to 1000000"),
        ("privacy.epsilon", 1e-300, "greater than or equal to 0.000001"),
        ("privacy.noise_multiplier", 1e300, "less than or equal to 1000000"),
        ("privacy.noise_multiplier", 1e-300, "greater than or equal to 0.000001"),
        ("privacy.noise_multiplier_floor", 1e300, "less than or equal to 1000000"),
        ("privacy.clip_norm", 1e300, "less than or equal to 1"),
        ("privacy.clip_norm", 1e-21, "greater than or equal to"),
        ("privacy.clip_norm_ceiling", 1e21, "less than or equal to 1"),
        ("privacy.epsilon", float("inf"), "finite number"),
        ("privacy.noise_multiplier", float("nan"), "finite number"),
        ("privacy.dp_delta", 1.0, "less than 1"),
        ("privacy.mechanism", "cauchy", "gaussian"),
        ("name", "De Mo", "pattern"),
        ("algorithm.batch_size", True, "valid integer"),
    ],
)
def test_a_fault_names_path_value_and_expectation(path: str, value: object, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(changed(path, value))
    (fault,) = caught.value.faults
    assert fault.path == path
    assert repr(value) in str(fault)
    assert expected in fault.expected
    assert caught.value.exit_code == 2


def test_every_fault_is_reported_at_once() -> None:
    content = changed("data.edges", 0)
    del content["stop"]
    with pytest.raises(ConfigError) as caught:
        parse(content)
    assert {fault.path for fault in caught.value.faults} == {"data.edges", "stop"}


def test_digest_covers_what_both_halves_share() -> None:
    base = parse(CONTENT).digest()
    for path, value in (("seed", 2), ("model.l2", 0.0), ("privacy.sampling", "fixed"), ("data.edges", 6)):
        assert parse(changed(path, value)).digest() != base, path
    for path, value in (
        ("data.root", "elsewhere"),
        ("data.download", True),
        ("privacy.noise_multiplier", 3.0),
        ("privacy.per_edge", {"edge-0001": {"noise_multiplier": 9.0}}),
        ("broker.host", "example"),
    ):
        assert parse(changed(path, value)).digest() == base, path


def test_each_edge_declares_its_own_privacy() -> None:
    content = changed("privacy.noise_multiplier", 2.0)
    content["privacy"]["per_edge"] = {"edge-0002": {"noise_multiplier": 4.0, "max_releases": 7}}  # type: ignore[index]
    experiment = parse(content)
    assert experiment.privacy_of("edge-0001").noise_multiplier == 2.0
    assert experiment.privacy_of("edge-0002").noise_multiplier == 4.0
    assert experiment.privacy_of("edge-0002").max_releases == 7


def test_load_applies_overrides(tmp_path: Path) -> None:
    file = tmp_path / "demo.yaml"
    file.write_text(
        "name: demo\ndata: {name: digits}\nmodel: {name: softmax}\nalgorithm: {name: mapa}\nstop: {updates: 1}\n"
    )
    experiment = load(file, ["stop.updates=25", "privacy.noise_multiplier=1.5", "data.partition.kind=shards"])
    assert isinstance(experiment, Experiment)
    assert experiment.stop.updates == 25
    assert experiment.privacy.noise_multiplier == 1.5
    assert experiment.data.partition.kind == "shards"


@pytest.mark.parametrize("override", ["noequals", "=1", "a..b=1", "name.x=1", "name=[1"])
def test_load_refuses_a_bad_override(tmp_path: Path, override: str) -> None:
    file = tmp_path / "demo.yaml"
    file.write_text("name: demo\n")
    with pytest.raises(ConfigError, match="--set"):
        load(file, [override])


@pytest.mark.parametrize("text", ["[1, 2]", "a: [", "", "\t"])
def test_load_refuses_what_is_no_mapping(tmp_path: Path, text: str) -> None:
    file = tmp_path / "demo.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError):
        load(file)


def test_a_missing_file_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent"):
        load(tmp_path / "absent.yaml")


def test_edge_ids_count_from_one() -> None:
    assert edge_ids(3) == ("edge-0001", "edge-0002", "edge-0003")
