"""Traces made ready to be drawn: streams of tokens, sites, weights head by head."""

from regard.views.scene.build import build
from regard.views.scene.packing import Packed, pack, unpack
from regard.views.scene.streams import Stream
from regard.views.scene.values import Picture, Scene, Site, Traced

__all__ = ["Packed", "Picture", "Scene", "Site", "Stream", "Traced", "build", "pack", "unpack"]
