"""How alike two pictures are: PSNR, SSIM and correlation. Pictures are [channels, height, width] in 0..1.

Source: Wang, Bovik, Sheikh and Simoncelli 2004, equation 13, with flat windows of 7 pixels a side as scikit-image has
them by default (smaller where the picture is), averaged over the channels.
Symbols: C1, C2 -> _LUMINANCE, _CONTRAST, the constants that keep the quotient finite on flat windows.

| measure | identical | unrelated | scale |
|---|---|---|---|
| psnr | MOST_PSNR | about 6 to 12 for digits | decibel; 10 more is a tenth of the squared error |
| ssim | 1 | near 0 | -1..1, local patterns rather than brightness |
| correlation | 1 | near 0 | -1..1, whatever brightness and contrast |
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Picture = NDArray[np.float64]

MOST_PSNR = 100.0
"""Where PSNR is cut off, so that identical pictures have a finite one."""
WINDOW = 7
_LUMINANCE, _CONTRAST = 0.01**2, 0.03**2


def psnr(picture: Picture, original: Picture) -> float:
    """Peak signal-to-noise ratio in dB, for a peak of 1."""
    error = float(np.square(picture - original).mean())
    return min(MOST_PSNR, -10 * math.log10(error)) if error > 0 else MOST_PSNR


def ssim(picture: Picture, original: Picture) -> float:
    """Mean structural similarity over all windows."""
    side = min(WINDOW, *picture.shape[1:])
    one, other = (sliding_window_view(values, (side, side), axis=(1, 2)) for values in (picture, original))
    axes, count = (-2, -1), side * side
    mean, mean_other = one.mean(axis=axes), other.mean(axis=axes)
    unbiased = count / max(count - 1, 1)
    variance, variance_other = one.var(axis=axes) * unbiased, other.var(axis=axes) * unbiased
    covariance = ((one * other).mean(axis=axes) - mean * mean_other) * unbiased
    above = (2 * mean * mean_other + _LUMINANCE) * (2 * covariance + _CONTRAST)
    below = (mean**2 + mean_other**2 + _LUMINANCE) * (variance + variance_other + _CONTRAST)
    return float((above / below).mean())


def correlation(picture: Picture, original: Picture) -> float:
    """Pearson's correlation of the pixels; 0 for a flat picture, which is like no other."""
    one, other = picture.ravel() - picture.mean(), original.ravel() - original.mean()
    length = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / length if length > 0 else 0.0
