"""Likeness of pictures: what is known of it beforehand, and the textbook's formula written out."""

from __future__ import annotations

import numpy as np
import pytest

from lab.attacks.similarity import MOST_PSNR, Picture, correlation, psnr, ssim

RNG = np.random.default_rng(3)
ONE, OTHER = RNG.random((1, 12, 9)), RNG.random((1, 12, 9))


def written_out(one: Picture, other: Picture, side: int = 7) -> float:
    """Wang et al. 2004, window by window."""
    found = []
    for channel in range(one.shape[0]):
        for row in range(one.shape[1] - side + 1):
            for column in range(one.shape[2] - side + 1):
                x = one[channel, row : row + side, column : column + side].ravel()
                y = other[channel, row : row + side, column : column + side].ravel()
                (vx, both), (_, vy) = np.cov(x, y)
                mx, my = x.mean(), y.mean()
                above = (2 * mx * my + 1e-4) * (2 * both + 9e-4)
                found.append(above / ((mx**2 + my**2 + 1e-4) * (vx + vy + 9e-4)))
    return float(np.mean(found))


def test_psnr_of_a_known_error() -> None:
    assert psnr(np.zeros((1, 4, 4)), np.full((1, 4, 4), 0.1)) == pytest.approx(20.0)
    assert psnr(ONE, ONE) == MOST_PSNR
    assert psnr(ONE, ONE + 1e-9) == MOST_PSNR


def test_ssim_is_one_for_the_same_picture_only_and_does_not_mind_the_order() -> None:
    assert ssim(ONE, ONE) == pytest.approx(1.0)
    assert ssim(ONE, OTHER) == pytest.approx(ssim(OTHER, ONE))
    assert abs(ssim(ONE, OTHER)) < 0.3
    assert ssim(ONE, 1 - ONE) < -0.5


def test_ssim_of_flat_pictures_is_that_of_their_brightness() -> None:
    found = ssim(np.full((1, 8, 8), 0.2), np.full((1, 8, 8), 0.6))
    assert found == pytest.approx((2 * 0.2 * 0.6 + 1e-4) / (0.2**2 + 0.6**2 + 1e-4))


@pytest.mark.parametrize("shape", [(1, 12, 9), (3, 8, 8), (1, 28, 28)])
def test_ssim_is_the_textbooks(shape: tuple[int, int, int]) -> None:
    one = np.random.default_rng(5).random(shape)
    other = np.clip(one + 0.2 * np.random.default_rng(6).standard_normal(shape), 0, 1)
    assert ssim(one, other) == pytest.approx(written_out(one, other), abs=1e-12)
    assert 0.1 < ssim(one, other) < 0.99


def test_ssim_takes_smaller_windows_of_small_pictures() -> None:
    small = ONE[:, :4, :5]
    assert ssim(small, OTHER[:, :4, :5]) == pytest.approx(written_out(small, OTHER[:, :4, :5], side=4))
    assert ssim(ONE[:, :1, :1], ONE[:, :1, :1]) == pytest.approx(1.0)


def test_correlation_does_not_see_brightness_and_contrast() -> None:
    assert correlation(ONE, 0.3 * ONE + 0.2) == pytest.approx(1.0)
    assert correlation(ONE, 1 - ONE) == pytest.approx(-1.0)
    assert abs(correlation(ONE, OTHER)) < 0.3
    assert correlation(np.full((1, 3, 3), 0.5), ONE[:, :3, :3]) == 0.0
