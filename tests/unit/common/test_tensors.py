import numpy as np
import pytest

from common.tensors import Layout, Tensors


def test_layout_sorts_names_and_counts_values() -> None:
    layout = Layout.of({"weight": (2, 3), "bias": (2,)})
    assert [name for name, _ in layout.shapes] == ["bias", "weight"]
    assert layout.offsets == (0, 2)
    assert layout.size == 8


@pytest.mark.parametrize(
    "shapes",
    [(("b", (1,)), ("a", (1,))), (("a", (1,)), ("a", (2,))), (("a", ()),), (("a", (0,)),)],
    ids=["unsorted", "twice", "no axis", "empty axis"],
)
def test_layout_refuses(shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Layout(shapes)


def test_tensors_are_views_of_one_buffer() -> None:
    buffer = np.arange(8, dtype=np.float32)
    tensors = Tensors(Layout.of({"weight": (2, 3), "bias": (2,)}), buffer)
    assert list(tensors) == ["bias", "weight"]
    np.testing.assert_array_equal(tensors["weight"], [[2, 3, 4], [5, 6, 7]])
    buffer[0] = 9  # the owner may write ...
    assert tensors["bias"][0] == 9
    with pytest.raises(ValueError, match="read-only"):  # ... whoever receives it may not
        tensors["bias"][0] = 1
    with pytest.raises(KeyError):
        tensors["other"]


def test_a_copy_does_not_follow_the_buffer() -> None:
    buffer = np.zeros(2, dtype=np.float32)
    copy = Tensors(Layout.of({"a": (2,)}), buffer).copy()
    buffer[:] = 1
    assert copy.flat.tolist() == [0, 0]


@pytest.mark.parametrize(
    "flat",
    [np.zeros(3, np.float32), np.zeros(2, np.float64), np.zeros(4, np.float32)[::2]],
    ids=["length", "dtype", "stride"],
)
def test_tensors_refuse_a_wrong_vector(flat: np.ndarray) -> None:
    with pytest.raises(ValueError, match="flat vector"):
        Tensors(Layout.of({"a": (2,)}), flat)


def test_of_copies_named_arrays_in_sorted_order() -> None:
    tensors = Tensors.of({"b": np.float32([[1, 2]]), "a": np.float32([3])})
    assert tensors.flat.tolist() == [3, 1, 2]
    assert tensors == Tensors.of({"a": np.float32([3]), "b": np.float32([[1, 2]])})
    assert tensors != Tensors.of({"a": np.float32([3]), "b": np.float32([[1, 4]])})
