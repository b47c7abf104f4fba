"""One self-contained page: it opens from disk, offline, and asks nobody for anything."""

from regard.views.page.html import page, write_page

__all__ = ["page", "write_page"]
