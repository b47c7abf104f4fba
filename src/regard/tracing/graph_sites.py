"""Which part of a model runs inside a graph module, which has no modules of its own any more.

`torch.export` and `torch.fx` write a model out as one function, in which the modules that it had
are gone. But each line of that function belongs to a node of the graph, and the node remembers the
module that it came from (`nn_module_stack`), such as `layers.0`. The line that runs is read from
the interpreter's frames, as the modules are in `sites.py`.
"""

import sys
from typing import Any

from torch import nn


def find_path_in_graph(module: nn.Module) -> str | None:
    """The path of the former module whose part of a graph module runs now.

    None if it is no graph module, or nothing is known of the line; "" for the whole model.
    """
    lines: dict[int, int | None] | None = vars(module).get("_lineno_map")
    code = getattr(type(module).forward, "__code__", None)
    frame = sys._getframe(1) if lines else None
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    if lines is None or frame is None:
        return None
    line = (frame.f_lineno or 0) - vars(module).get("_prologue_start", 0)
    return _path_of_node(module.graph, lines.get(line))


def _path_of_node(graph: Any, index: int | None) -> str | None:
    """The path of the module that the node with this index came from."""
    nodes = list(graph.nodes)
    if index is None or index >= len(nodes):
        return None
    stack = nodes[index].meta.get("nn_module_stack")
    if not stack:
        return ""
    path = str(list(stack.values())[-1][0])
    return path.removeprefix("L['self']").removeprefix(".")
