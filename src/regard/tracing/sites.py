"""Which module is running: the path of every site, read off the calls that are under way.

A site is called by the path of its module, such as `model.layers.5.self_attn`. A module whose
paths would mean nothing to its user may name them otherwise: an attribute `site_names` maps the
path of a module inside it to the name to show. Models that were converted from a checkpoint of
transformers have it, so that their sites are called as in the model that the user knows:

    model.site_names = {"decoder.layers.5.attention": "model.layers.5.self_attn", ...}
"""

import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import TracebackType
from typing import Any

from torch import Tensor, nn
from torch.jit import ScriptModule

_CALL = nn.Module._call_impl.__code__  # the one frame that every call of a module has
_DEPTH = 2  # what a caller may run by itself, such as an encoder

Place = tuple[int, str]  # the module above, by its id, and the name in it
Given = dict[str, Tensor]  # what a model is given, by the names of its arguments


class Sites:
    """The modules of a model by their paths, and which of them runs in this thread.

    Frames of the interpreter tell it when it is asked: hooks on every module would slow down each
    of its calls, and frames are the thread's own and gone after an error. `begun` are told what
    the model is given, `closed` that watching has ended.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model, self._handles = model, list[Any]()
        self._places = dict[int, Place]()
        self._site_names = dict[str, str]()  # the name to show, by the module's own path
        self._begins, self._scripts = list[nn.Module](), list[ScriptModule]()
        self.encoders: list[nn.TransformerEncoder] = []  # torch's own, with a fast path
        self._walk(model, 0, "", 0)
        self._thread = threading.get_ident()
        self.batch = 0  # examples of the call that began last; 0 where none is known
        self.heads = 0  # that a function under way folds into its batch, where it says so
        self.begun: list[Callable[[Given], None]] = []
        self.scripted: list[Callable[[str, ScriptModule, Any, Any], None]] = []
        self.closed: list[Callable[[], None]] = []

    def __enter__(self) -> "Sites":
        self._thread = threading.get_ident()
        for each in self._begins:
            hook = each.register_forward_pre_hook(self._begin, with_kwargs=True, prepend=True)
            self._handles.append(hook)
        for script in self._scripts:
            # a scripted module has torch's hooks, but refuses them by its own name for them
            hook = nn.Module.register_forward_hook(script, self._scripted, with_kwargs=True)
            self._handles.append(hook)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for handle in self._handles:
            handle.remove()
        for close in self.closed:
            close()

    @property
    def here(self) -> str:
        """The path of the innermost running module; that of the model itself is its class."""
        return self._name(next(running(), self._model))

    @property
    def caller(self) -> str:
        """The path of the module that called the innermost one."""
        modules = running()
        next(modules, None)
        return self._name(next(modules, self._model))

    def _name(self, module: nn.Module) -> str:
        if path := self._path(id(module)):
            return self._site_names.get(path, path)
        scripted = isinstance(module, ScriptModule)
        return str(module.original_name) if scripted else type(module).__name__

    def _path(self, module: int) -> str:
        above, name = self._places.get(module, (0, ""))
        path = self._path(above) if above else ""
        return f"{path}.{name}" if path else name

    def _walk(self, module: nn.Module, above: int, name: str, depth: int) -> None:
        """Note where each module is, once, in the order of `named_modules`; paths are for later."""
        here = id(module)
        self._places[here] = (above, name)
        if "site_names" in vars(module):  # paths are made for these few modules only
            self._site_names |= site_names_of(module, self._path(here))
        if isinstance(module, ScriptModule):  # those within are not run from here
            self._scripts.append(module)
            return
        if isinstance(module, nn.TransformerEncoder):
            self.encoders.append(module)
        if depth <= _DEPTH:
            self._begins.append(module)
        for inner, child in module._modules.items():
            if child is not None and id(child) not in self._places:
                self._walk(child, here, inner, depth + 1)

    def parts(self, batch: int) -> int:
        """How many rows of such a batch belong to one example."""
        return batch // self.batch if self.batch and batch % self.batch == 0 else 1

    def _begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if threading.get_ident() != self._thread:
            return
        ours = (each for each in running() if id(each) in self._places)
        next(ours, None)  # the module itself: hooks run within its call
        if next(ours, None) is not None:
            return
        names = _parameters(type(module))  # type: ignore[arg-type]  # a class has its hash
        given = dict(zip(names, args, strict=False)) | kwargs
        inputs = {name: each for name, each in given.items() if isinstance(each, Tensor)}
        self.batch = self._examples(module, inputs.values())
        for begin in self.begun:
            begin(inputs)

    def _examples(self, module: nn.Module, inputs: Iterable[Tensor]) -> int:
        """How many examples a call has; a part that runs by itself tells it by ids or pictures.

        The first axis of what else it is given may be another, as in the state of an RNN.
        """
        sure = module is self._model or not self.batch
        fitting = (
            len(each)
            for each in inputs
            if each.dim() > 1 and (sure or each.dim() == 4 or not each.is_floating_point())
        )
        return next(fitting, 0 if sure else self.batch)

    def _scripted(
        self, module: ScriptModule, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        if threading.get_ident() == self._thread:
            for note in self.scripted:
                note(self._name(module), module, (*args, *kwargs.values()), output)


def site_names_of(module: nn.Module, path: str = "") -> dict[str, str]:
    """The names that a module at this path gives to sites inside it, by their own paths."""
    # read off the instance: a lookup that fails costs far more in torch, for every module
    site_names: Mapping[str, str] = vars(module).get("site_names") or {}
    start = f"{path}." if path else ""
    return {start + own_path: start + name for own_path, name in site_names.items()}


def find_module(model: nn.Module, site: str) -> nn.Module:
    """The module that attends at a site; an AttributeError if the model has none of that name."""
    for path, module in model.named_modules():
        for own_path, name in site_names_of(module, path).items():
            if name == site:
                return model.get_submodule(own_path)
    return model.get_submodule(site)


def running() -> Iterator[nn.Module]:
    """The modules whose calls are under way in this thread, the innermost first."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _CALL:
            yield frame.f_locals["self"]
        frame = frame.f_back  # type: ignore[assignment]


@lru_cache(maxsize=256)
def _parameters(kind: Any) -> tuple[str, ...]:
    """The names of what a module's forward takes."""
    try:
        names = list(inspect.signature(kind.forward).parameters)
    except (TypeError, ValueError):
        return ()
    return tuple(names[1:])
