"""Packages import in one direction only: the table of docs/architecture.md, from the source."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "regard"

# What each package may import. `kernels.decode` allows that sub-package alone; an empty string
# allows nothing. The modules of the foundation are single ones that every package may use.
FOUNDATION = "arguments configs documents errors files terminal unicode"
ALLOWED = {
    "arguments": "errors",
    "configs": "",
    "documents": "errors",
    "errors": "",
    "files": "errors",
    "terminal": "unicode",
    "unicode": "",
    "text": FOUNDATION,
    "masks": FOUNDATION,
    "kernels": f"masks {FOUNDATION}",
    "attention": f"kernels masks {FOUNDATION}",
    "models": f"attention kernels.decode masks {FOUNDATION}",
    "training": f"models attention masks {FOUNDATION}",
    "types": f"kernels masks {FOUNDATION}",
    "storage": f"types kernels masks {FOUNDATION}",
    "tracing": f"types kernels masks {FOUNDATION}",
    "loading": f"models {FOUNDATION}",
    "measures": f"types {FOUNDATION}",
    "attribution": f"measures tracing types {FOUNDATION}",
    "studies": f"attribution tracing measures types storage {FOUNDATION}",
    "diagnosis": f"studies tracing storage measures types text {FOUNDATION}",
    "views": f"types text {FOUNDATION}",
    "tasks": f"loading models tracing attribution types {FOUNDATION}",
    "app": f"text masks kernels types storage attention models tracing loading measures "
    f"attribution studies diagnosis views tasks {FOUNDATION}",
    "cli": f"text masks kernels types storage attention models training tracing loading measures "
    f"attribution studies diagnosis views tasks app {FOUNDATION}",
}
# What each part of a package (a module or sub-package) may import of the other parts.
PARTS = {
    "kernels": {
        "layout": "",
        "memory": "",
        "library": "layout",
        "pair_sums": "layout library memory",
        "observe": "layout library memory",
        "decode": "layout library memory",
    },
    "tracing": {
        "graph_sites": "",
        "sites": "graph_sites",
        "readable": "",
        "dtensors": "",
        "failures": "",
        "child_threads": "",
        "mask_reading": "",
        "fast_paths": "sites readable",
        "dataflow": "sites readable dtensors",
        "fast_outputs": "sites readable dataflow",
        "head_shards": "sites dataflow dtensors",
        "recording": "sites readable mask_reading dataflow head_shards",
        "parallel_heads": "dataflow dtensors head_shards recording",
        "huggingface": "readable mask_reading recording",
        "assembly": "mask_reading dataflow recording",
        "inner_calls": "readable mask_reading dataflow recording",
        "watcher": "sites readable dtensors failures mask_reading dataflow head_shards recording "
        "inner_calls assembly",
        "open_watchers": "sites readable failures child_threads fast_paths fast_outputs dataflow "
        "head_shards recording huggingface inner_calls watcher",
        "watch": "recording parallel_heads assembly open_watchers",
        "inputs": "recording assembly watch",
        "statistics": "recording assembly open_watchers inputs",
        "capture": "watch inputs",
        "gradients": "inputs",
    },
}
PACKAGES = sorted(
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


def package_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def is_allowed(module: str, allowed: set[str]) -> bool:
    """True if a package of the list, or one of its named sub-packages, holds the module."""
    inner = module.removeprefix("regard.")
    return any(inner == name or inner.startswith(f"{name}.") for name in allowed)


def test_every_package_has_its_place_in_the_table():
    assert {*PACKAGES} <= {*ALLOWED}


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_imports_only_what_the_table_allows(name):
    place = SOURCE / name
    files = place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]
    modules = {module for file in files for module in imported(ast.parse(file.read_text()))}
    # `import regard` alone is the public surface, for the package at the top
    surface = {"regard", "regard._version"} if name == "cli" else set()
    existing = {module for module in modules if module in MODULES or package_of(module) == ""}
    allowed = {name, *ALLOWED[name].split()}
    assert not [each for each in sorted(existing - surface) if not is_allowed(each, allowed)]


@pytest.mark.parametrize(
    ("package", "part"), [(package, part) for package in PARTS for part in PARTS[package]]
)
def test_the_parts_of_a_package_import_in_one_direction(package, part):
    place = SOURCE / package / part
    files = place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]
    modules = {module for file in files for module in imported(ast.parse(file.read_text()))}
    inside = {module for module in modules if module.startswith(f"regard.{package}.")}
    allowed = {f"{package}.{name}" for name in (part, *PARTS[package][part].split())}
    assert not [module for module in sorted(inside) if not is_allowed(module, allowed)]


@pytest.mark.parametrize("package", PARTS)
def test_every_part_of_a_package_has_its_place_in_the_table(package):
    folder = SOURCE / package
    paths = [path for path in folder.iterdir() if path.suffix == ".py" or any(path.glob("*.py"))]
    assert {path.stem for path in paths} - {"__init__"} == {*PARTS[package]}


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
