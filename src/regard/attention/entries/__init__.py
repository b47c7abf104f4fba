"""The catalog of mechanisms, put together from one module of entries per family."""

from regard.attention.entries import copying, heads, normalizers, positions, reach, scores
from regard.attention.entry import Catalog

catalog = Catalog(
    (
        *scores.ENTRIES,
        *normalizers.ENTRIES,
        *reach.ENTRIES,
        *positions.ENTRIES,
        *heads.ENTRIES,
        *copying.ENTRIES,
    )
)
