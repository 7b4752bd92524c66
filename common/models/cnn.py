"""The MAPA paper's network of five layers: two convolutions, two pools, one full layer.

Source: the paper gives the kinds of layers, the authors' released code their sizes. At 28 x 28 pixels in one channel
it has 4,380 parameters for 10 classes and 12,752 for 62. Deviation: smaller pictures are framed with zeros up to
28 x 28 (for USPS the paper does not say).
"""

from __future__ import annotations

from common.errors import ConfigError, Fault
from common.models.five_layers import FiveLayers
from common.models.network import Network

SMALLEST = 28


def build(shape: tuple[int, ...], classes: int) -> Network:
    """Sized by pictures of `shape` (channels, height, width).

    Raises:
        ConfigError: the records are no pictures.
    """
    if len(shape) != 3:
        expected = f"a data set of pictures (channels, height, width), not records of {list(shape)}"
        raise ConfigError(Fault("model.name", "cnn", expected))
    channels, height, width = shape
    return Network(FiveLayers((channels, max(height, SMALLEST), max(width, SMALLEST)), classes), shape)
