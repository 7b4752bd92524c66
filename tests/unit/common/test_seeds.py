import numpy as np

from common.seeds import stream


def test_a_stream_is_reproducible_and_depends_on_every_name() -> None:
    def draw(*key: object) -> list[int]:
        return stream(*key).integers(0, 2**63, 8).tolist()  # type: ignore[arg-type]

    base = draw(7, "edge-0001", "noise")
    assert base == draw(7, "edge-0001", "noise")
    others = [(8, "edge-0001", "noise"), (7, "edge-0002", "noise"), (7, "edge-0001", "sampling"), (7, "edge-0001")]
    assert all(draw(*key) != base for key in others)


def test_a_stream_is_the_same_on_every_machine() -> None:
    assert stream(7, "edge-0001", "noise").integers(0, 2**63, 2).tolist() == [
        3553355996645027666,
        5675043319692131015,
    ]


def test_names_do_not_run_together() -> None:
    assert stream(1, "ab", "c").integers(0, 2**63) != stream(1, "a", "bc").integers(0, 2**63)


def test_streams_are_uncorrelated() -> None:
    first, second = (stream(1, name).standard_normal(10_000) for name in ("a", "b"))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.05
