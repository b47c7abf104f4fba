"""One self-contained HTML page: it opens from disk, offline, and requests nothing.

`write_page(path, packed, state)` writes a packed scene (html.py): a JSON header, the blobs as
characters of UTF-16 (utf16.py), and front.js, the front end that is built from front/. FORMAT.md
describes the header, the blobs and the page; the front end reads what is written here.
"""

from regard.views.page.html import page, write_page

__all__ = ["page", "write_page"]
