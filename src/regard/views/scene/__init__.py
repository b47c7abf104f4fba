"""Scenes: traces made ready to be drawn, as streams of tokens, sites, and weights head by head.

`build_scene(trace)` (build.py) makes a `Scene` (values.py) of a trace. Its tokens become
`TokenStream`s, which know words and sentences (streams.py); each site's maps are read lazily, whole
or, for long texts, as cells (maps.py); two traces of one text are aligned word by word
(alignment.py). `pack_scene(scene)` (packing.py) turns it into a JSON header and blobs of bytes for
a page, and `unpack_scene` turns these back.
"""

from regard.views.scene.build import build_scene
from regard.views.scene.packing import PackedScene, pack_scene, unpack_scene
from regard.views.scene.streams import TokenStream
from regard.views.scene.values import Picture, Scene, SceneSite, SceneTrace

__all__ = [
    "PackedScene",
    "Picture",
    "Scene",
    "SceneSite",
    "SceneTrace",
    "TokenStream",
    "build_scene",
    "pack_scene",
    "unpack_scene",
]
