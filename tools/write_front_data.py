"""Write the data that the front end shares with Python into front/src/generated.

    python tools/write_front_data.py          # writes kinds.ts, views.ts and colours.json
    python tools/write_front_data.py --check  # says which of them are not current

`kinds.ts` lists the kinds of pictures in the order of their tabs, from the registrations in
src/regard/views/kinds; it is TypeScript and not JSON, so that their names are types there.
`views.ts` imports the class that draws each kind: `HeatmapView` of front/src/views/heatmap.ts.
`colours.json` is src/regard/views/colours.json without its explanation.
Run it after a change of either, then build the page with `make front`.
"""

import json
import sys
from pathlib import Path
from typing import Any

from regard.views.kinds import KINDS

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "front" / "src" / "generated"
COLOURS = ROOT / "src" / "regard" / "views" / "colours.json"


def kinds() -> list[dict[str, Any]]:
    """What the page has to know of each kind of picture that it has a tab for."""
    return [
        {
            "name": kind.name,
            "key": kind.key,
            "label": kind.label_key,
            "traces": kind.traces,
            "needsImage": kind.needs_image,
            "inFindings": kind.in_findings,
        }
        for kind in KINDS.values()
        if kind.on_page
    ]


def colours() -> dict[str, Any]:
    """The colour maps by name and theme, and the colours of heads by theme."""
    stops = json.loads(COLOURS.read_text("utf-8"))
    return {name: value for name, value in stops.items() if name != "about"}


def contents() -> dict[Path, str]:
    """The text of each generated file by its path."""
    return {
        FOLDER / "kinds.ts": _kinds_module(),
        FOLDER / "views.ts": _views_module(),
        FOLDER / "colours.json": json.dumps(colours(), separators=(",", ":")) + "\n",
    }


def _kinds_module() -> str:
    lines = [f"  {json.dumps(kind)}," for kind in kinds()]
    about = "/** The kinds of pictures. Written by tools/write_front_data.py, not by hand. */"
    return "\n".join([about, "export const KINDS = [", *lines, "] as const;", ""])


def _views_module() -> str:
    names = [kind["name"] for kind in kinds()]
    about = (
        "/** The class that draws each kind. Written by tools/write_front_data.py, not by hand. */"
    )
    imports = [f'import {{ {_class_name(name)} }} from "../views/{name}";' for name in names]
    entries = [f"  {name}: {_class_name(name)}," for name in names]
    return "\n".join([about, *imports, "", "export const VIEWS = {", *entries, "};", ""])


def _class_name(kind: str) -> str:
    return f"{kind.capitalize()}View"


def stale() -> list[Path]:
    """The generated files that are missing or differ from what this tool would write."""
    return [
        path
        for path, text in contents().items()
        if not path.is_file() or path.read_text("utf-8") != text
    ]


def main() -> int | str:
    """Write the files; with --check only, the sentence that says which are not current, or 0."""
    old = stale()
    if "--check" in sys.argv[1:]:
        names = ", ".join(str(path.relative_to(ROOT)) for path in old)
        return f"not current, run tools/write_front_data.py: {names}" if old else 0
    for path, text in contents().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
