"""Sizes of a figure on paper: columns, letters and what lies between, in points."""

from regard.errors import InputError

POINTS = 72 / 25.4  # in a millimetre
COLUMNS = {"single": 88.0, "double": 180.0}  # millimetres
NARROWEST, WIDEST = 40.0, 420.0
TALLEST = 640.0  # points that the picture on a page may be high, above its caption

SMALL, LABEL, CAPTION, TITLE = 6.0, 7.0, 8.0, 9.0
GAP = 4.0

Width = float | str


def points_of(width: Width) -> float:
    """The width of a figure in points: of a single or double column, or of millimetres.

    >>> from regard.views.figure.columns import points_of
    >>> round(points_of("single")), round(points_of(254))
    (249, 720)
    """
    known = COLUMNS.get(width) if isinstance(width, str) else width
    if not isinstance(known, int | float) or not NARROWEST <= known <= WIDEST:
        raise InputError(
            f"expected a width of 'single', 'double' or {NARROWEST:.0f} to {WIDEST:.0f} "
            f"millimetres, got {width!r}"
        )
    return known * POINTS
