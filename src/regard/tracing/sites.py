"""Which module is running: the path of every site, from hooks that see all modules."""

from types import TracebackType
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as hooks


class Sites:
    """The stack of running modules while the hooks are in place; only its own thread's."""

    def __init__(self, model: nn.Module) -> None:
        self._names = {id(each): name for name, each in model.named_modules()}
        self._model, self._stack, self._handles = model, list[nn.Module](), list[Any]()
        self.batch = 0  # examples of the call that began last; 0 where none is known

    def __enter__(self) -> "Sites":
        self._handles = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
            *(
                each.register_forward_pre_hook(self._begin, with_kwargs=True)
                for name, each in self._model.named_modules()
                if name.count(".") < 2  # what a caller may run by itself, such as an encoder
            ),
        ]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for handle in self._handles:
            handle.remove()

    @property
    def here(self) -> str:
        """The path of the innermost running module; that of the model itself is its class."""
        return self._name(self._stack[-1]) if self._stack else type(self._model).__name__

    @property
    def caller(self) -> str:
        """The path of the module that called the innermost one."""
        return self._name(self._stack[-2]) if len(self._stack) > 1 else type(self._model).__name__

    def _name(self, module: nn.Module) -> str:
        return self._names.get(id(module)) or type(module).__name__

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        self._stack.append(module)

    def parts(self, batch: int) -> int:
        """How many rows of such a batch belong to one example."""
        return batch // self.batch if self.batch and batch % self.batch == 0 else 1

    def _begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._stack[:-1]:
            return
        inputs = [each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)]
        self.batch = next((len(each) for each in inputs if each.dim() > 1), 0)

    def _leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if self._stack and self._stack[-1] is module:
            self._stack.pop()
