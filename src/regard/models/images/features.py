"""Feature maps: an image as a grid of cells, each a vector that attention can read."""

from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import InputError, ShapeError
from regard.models.images.config import CaptionerConfig, RecogniserConfig

Pixels = Float[Tensor, "batch channel height width"]
Cells = Float[Tensor, "batch key dim"]


class FeatureMap(nn.Module):
    """The annotation vectors a_1 .. a_L of an image, row by row (Xu et al. 2015, 3.1.1)."""

    def __init__(self, config: RecogniserConfig | CaptionerConfig) -> None:
        super().__init__()
        self.channels, self.dim = config.channels, config.widths[-1]
        self.reduction = config.patch  # pixels per cell, along each side
        if config.features == "patches":
            self.layers = nn.Sequential(
                nn.Conv2d(config.channels, self.dim, config.patch, stride=config.patch)
            )
            return
        self.reduction = 2 ** len(config.widths)
        layers: list[nn.Module] = []
        for narrow, wide in pairwise((config.channels, *config.widths)):
            layers += [nn.Conv2d(narrow, wide, 3, stride=2, padding=1)]
            # Unlike batch norm, this does not depend on the other images of the batch.
            layers += [nn.GroupNorm(1, wide), nn.ReLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, pixel_values: Pixels) -> Cells:
        """One vector for each cell, row by row from the top left."""
        if pixel_values.dim() != 4 or pixel_values.shape[1] != self.channels:
            raise ShapeError(
                f"expected pixel_values (batch, {self.channels}, height, width), "
                f"got {tuple(pixel_values.shape)}"
            )
        if min(pixel_values.shape[2:]) < self.reduction:
            raise InputError(
                f"expected pictures of {self.reduction} x {self.reduction} pixels at least, "
                f"got {pixel_values.shape[2]} x {pixel_values.shape[3]}"
            )
        grid: Tensor = self.layers(pixel_values)
        return grid.flatten(2).transpose(1, 2)
