"""Rooms look only into rooms below them: the imports are read, not run."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "regard"

BELOW = {
    "errors": "",
    "masks": "errors",
    "kernels": "masks errors",
    "types": "kernels masks errors",
    "storage": "types kernels masks errors",
    "attention": "kernels masks errors",
    "models": "attention masks errors",
    "training": "models attention masks errors",
    "tracing": "types kernels masks errors",
    "measures": "types errors",
    "studies": "tracing measures types errors",
    "diagnosis": "studies measures types errors",
    "views": "types errors",
    "app": "errors masks kernels types storage attention models tracing measures studies "
    "diagnosis views",
    "cli": "errors masks kernels types storage attention models training tracing measures studies "
    "diagnosis views app",
}
ROOMS = sorted(
    path.stem
    for path in SOURCE.iterdir()
    if (path.suffix == ".py" or any(path.glob("*.py"))) and not path.stem.startswith("_")
)
FILES = sorted(SOURCE.rglob("*.py"))


def module_of(file: Path) -> str:
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(file) for file in FILES}


def imported(tree: ast.AST) -> set[str]:
    """The modules of the package that a file names in its imports."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                names.add(inner if inner in MODULES else node.module)
    return {name for name in names if name.split(".")[0] == "regard"}


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def test_every_room_has_its_place_in_the_table():
    assert {*ROOMS} <= {*BELOW}


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_looks_only_into_rooms_below_it(name):
    place = SOURCE / name
    files = place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]
    seen = {room(each) for file in files for each in imported(ast.parse(file.read_text()))}
    # `import regard` alone is the public surface, for the rooms at the top
    surface = {""} | {"_version"} if name == "cli" else set()
    loose = {each for each in seen if (SOURCE / each).exists() or (SOURCE / f"{each}.py").exists()}
    assert loose - surface - {name} <= {*BELOW[name].split()}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_no_relative_imports_hide_where_a_name_comes_from(file):
    tree = ast.parse(file.read_text())
    assert not any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree))


def test_no_two_files_import_each_other():
    graph = {module_of(file): imported(ast.parse(file.read_text())) for file in FILES}
    graph = {name: {each for each in names if each in graph} for name, names in graph.items()}
    del graph["regard"]  # its names are lazy
    while leaves := [name for name, names in graph.items() if not (names & graph.keys()) - {name}]:
        for name in leaves:
            del graph[name]
    assert graph == {}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_a_file_opens_with_one_sentence_and_fits_on_a_few_screens(file):
    text = file.read_text()
    assert ast.get_docstring(ast.parse(text)), "a module says its business"
    assert text.count("\n") <= 400
