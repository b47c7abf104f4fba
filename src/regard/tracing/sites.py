"""Which module of a model is running now: sites are named by the paths of modules.

The answer is read from the interpreter's frames when it is needed. Hooks on every module would slow
down each of its calls. Frames also belong to one thread, and an error leaves nothing to clean up.

A site is called by the path of its module, such as `model.layers.5.self_attn`. A module whose
paths would mean nothing to its user may name them otherwise: an attribute `site_names` maps the
path of a module inside it to the name to show. Models that were converted from a checkpoint of
transformers have it, so that their sites are called as in the model that the user knows:

    model.site_names = {"decoder.layers.5.attention": "model.layers.5.self_attn", ...}
"""

import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import FrameType, TracebackType
from typing import Any

from torch import Tensor, nn
from torch.jit import ScriptModule
from torch.utils.hooks import RemovableHandle

from regard.tracing.graph_sites import find_path_in_graph

_MODULE_CALL = nn.Module._call_impl.__code__  # every call of a module has a frame of this code
# inputs with one row for each example, whatever others have: a text may have several pictures
_TOKENS = ("input_ids", "inputs_embeds", "decoder_input_ids", "attention_mask")
_ENTRY_DEPTH = 2  # modules down to this depth, such as an encoder, may be called by themselves

Parent = tuple[int, str]  # the id of the module above, and the name of the module in it
OWN_HOOKS = set[int]()  # the ids of the hooks that watchers have set on modules
ModelInputs = dict[str, Tensor]  # the tensors that a model is called with, by argument name


class _RunningModel(threading.local):
    """What runs in this thread.

    `examples` is how many examples the watched model that began last reads, 0 if not known;
    `inherited` are the models whose call has started this thread.
    """

    examples = 0
    inherited: "tuple[Sites, ...]" = ()


_running_model = _RunningModel()


@contextmanager
def run_for(models: "Sequence[Sites]", examples: int) -> Iterator[None]:
    """Let this thread be one that the calls of these models have started, while the block runs."""
    before = (_running_model.examples, _running_model.inherited)
    _running_model.examples, _running_model.inherited = examples, tuple(models)
    try:
        yield
    finally:
        _running_model.examples, _running_model.inherited = before


def examples_of_running_model() -> int:
    """How many examples the watched model that began last in this thread reads; 0 if not known."""
    return _running_model.examples


class Sites:
    """The modules of a model by their paths, and which of them runs in this thread.

    The callbacks in `on_begin` are called with the inputs when the model begins, or a part of it
    that runs by itself; those in `on_symbolic` instead if the inputs have symbolic sizes, which
    must not be read, because torch writes every reading down; those in `on_script` after a scripted
    module has run; those in `on_unseen_thread` with the site of a module that the running model
    runs in a thread that is not watched; those in `on_failure` with an error of our own in one of
    these; those in `on_close` when watching ends.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model, self._handles = model, list[RemovableHandle]()
        self._parents = dict[int, Parent]()
        self._site_names = dict[str, str]()  # the name to show, by the module's own path
        self._entries, self._scripts = list[nn.Module](), list[ScriptModule]()
        self.encoders: list[nn.TransformerEncoder] = []  # torch's own, which have a fast path
        self._walk(model, 0, "", 0)
        self._thread = threading.get_ident()
        self.batch = 0  # examples of the call that began last; 0 if not known
        self.heads = 0  # heads that the running function folds into its batch; 0 if not known
        self.on_begin: list[Callable[[ModelInputs], None]] = []
        self.on_symbolic: list[Callable[[], None]] = []
        self.on_script: list[Callable[[str, ScriptModule, Any, Any], None]] = []
        self.on_failure: list[Callable[[Exception], None]] = []
        self.on_unseen_thread: list[Callable[[str], None]] = []
        self.on_close: list[Callable[[], None]] = []

    def __enter__(self) -> "Sites":
        self._thread = threading.get_ident()
        for module in self._entries:
            hook = module.register_forward_pre_hook(self._begin, with_kwargs=True, prepend=True)
            self._keep_hook(hook)
        for script in self._scripts:
            # a ScriptModule overrides this method to refuse hooks, although it runs them
            hook = nn.Module.register_forward_hook(script, self._note_script, with_kwargs=True)
            self._keep_hook(hook)
        return self

    def _keep_hook(self, handle: RemovableHandle) -> None:
        self._handles.append(handle)
        OWN_HOOKS.add(handle.id)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _running_model.examples = 0
        for handle in self._handles:
            handle.remove()
            OWN_HOOKS.discard(handle.id)
        for close in self.on_close:
            close()

    @property
    def here(self) -> str:
        """The path of the innermost running module; for the model itself, the name of its class."""
        module = next(running(), self._model)
        inner = find_path_in_graph(module)
        return self._join(module, inner) if inner else self._name(module)

    @property
    def is_inside(self) -> bool:
        """True if a part of the model is running, not the model itself or the code around it."""
        innermost = next(running(), None)
        return innermost is not None and innermost is not self._model

    @property
    def caller(self) -> str:
        """The path of the module that called the innermost one."""
        modules = running()
        module = next(modules, self._model)
        inner = find_path_in_graph(module)
        if inner is not None:  # a former module that called another one, in one graph
            above = inner.rpartition(".")[0]
            return self._join(module, above) if above else self._name(module)
        return self._name(next(modules, self._model))

    def _join(self, module: nn.Module, inner: str) -> str:
        """The name of a former module inside a graph module."""
        path = self._path(id(module))
        path = f"{path}.{inner}" if path else inner
        return self._site_names.get(path, path)

    def _name(self, module: nn.Module) -> str:
        """The name of a module as a site; the name of its class if it is not in the model."""
        if path := self._path(id(module)):
            return self._site_names.get(path, path)
        scripted = isinstance(module, ScriptModule)
        return str(module.original_name) if scripted else type(module).__name__

    def _path(self, module: int) -> str:
        """The path of the module with this id, put together from the names of its parents."""
        above, name = self._parents.get(module, (0, ""))
        path = self._path(above) if above else ""
        return f"{path}.{name}" if path else name

    def _walk(self, module: nn.Module, above: int, name: str, depth: int) -> None:
        """Remember the parent of each module, in the order of `named_modules`.

        Paths are put together when they are needed, which is faster for a model of many modules.
        """
        own_id, fields = id(module), vars(module)
        self._parents[own_id] = (above, name)
        if "site_names" in fields:  # paths are made for these few modules only
            self._site_names |= site_names_of(module, self._path(own_id))
        if isinstance(module, ScriptModule):  # modules inside it are not called from Python
            self._scripts.append(module)
            return
        if isinstance(module, nn.TransformerEncoder):
            self.encoders.append(module)
        if depth <= _ENTRY_DEPTH:
            self._entries.append(module)
        for inner, child in fields["_modules"].items():
            if child is not None and id(child) not in self._parents:
                self._walk(child, own_id, inner, depth + 1)

    def windows(self, batch: int) -> int:
        """How many rows of a batch of this size belong to one example, as windows of a picture."""
        return batch // self.batch if self.batch and batch % self.batch == 0 else 1

    def _begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note the inputs of a module, unless it was called by another module of the model."""
        try:
            if threading.get_ident() == self._thread:
                self._note_call(module, args, kwargs)
            elif self not in _running_model.inherited:
                self._note_unseen_thread(module)
        except Exception as error:
            for note in self.on_failure:
                note(error)

    @property
    def is_running(self) -> bool:
        """True if a module of the model is being called in this thread, or has started it."""
        if self in _running_model.inherited:
            return True
        return any(id(module) in self._parents for module in running())

    def _note_unseen_thread(self, module: nn.Module) -> None:
        """Report a part of the model in a thread that is not watched, while the model runs.

        A call of the whole model in another thread is not part of this block.
        """
        frame = sys._current_frames().get(self._thread)
        is_part = module is not self._model and len(list(running())) == 1
        if is_part and any(id(above) in self._parents for above in modules_called_from(frame)):
            for note in self.on_unseen_thread:
                note(self._name(module))

    def _note_call(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """`_begin` without its net."""
        ours = (caller for caller in running() if id(caller) in self._parents)
        next(ours, None)  # the module itself, because hooks run inside its call
        if next(ours, None) is not None:
            return
        names = _argument_names(type(module))  # type: ignore[arg-type]  # a class has its hash
        arguments = dict(zip(names, args, strict=False)) | kwargs
        inputs = {name: value for name, value in arguments.items() if isinstance(value, Tensor)}
        if any(tensor._has_symbolic_sizes_strides for tensor in inputs.values()):
            for note in self.on_symbolic:
                note()
            return
        self.batch = _running_model.examples = self._count_examples(module, inputs)
        for begin in self.on_begin:
            begin(inputs)

    def _count_examples(self, module: nn.Module, inputs: ModelInputs) -> int:
        """How many examples the inputs hold: the rows of their tokens, else of the first tensor.

        A part of the model that runs by itself may get tensors whose first axis is not the batch,
        as the state of a recurrent network; of those only ids and pictures are counted.
        """
        any_tensor = module is self._model or not self.batch
        tokens = (inputs[name] for name in _TOKENS if name in inputs)
        counts = (
            len(tensor)
            for tensor in (*tokens, *inputs.values())
            if tensor.dim() > 1
            and (any_tensor or tensor.dim() == 4 or not tensor.is_floating_point())
        )
        return next(counts, 0 if any_tensor else self.batch)

    def _note_script(
        self, module: ScriptModule, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        """Report the call of a scripted module, whose functions cannot be intercepted."""
        if threading.get_ident() != self._thread:
            return
        try:
            for note in self.on_script:
                note(self._name(module), module, (*args, *kwargs.values()), output)
        except Exception as error:
            for note_failure in self.on_failure:
                note_failure(error)


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
    """The modules that are being called in this thread, the innermost first."""
    return modules_called_from(sys._getframe(1))


def modules_called_from(frame: FrameType | None) -> Iterator[nn.Module]:
    """The modules whose calls are on the stack of a frame, the innermost first."""
    while frame is not None:
        if frame.f_code is _MODULE_CALL:
            yield frame.f_locals["self"]
        frame = frame.f_back


@lru_cache(maxsize=256)
def _argument_names(kind: Any) -> tuple[str, ...]:
    """The names of the arguments of a module's forward."""
    try:
        names = list(inspect.signature(kind.forward).parameters)
    except (TypeError, ValueError):
        return ()
    return tuple(names[1:])
