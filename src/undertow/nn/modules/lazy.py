"""Modules that infer their sizes from the first input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from undertow.nn.parameter import UninitializedParameter, is_lazy

if TYPE_CHECKING:
    from undertow._tensor import Tensor
    from undertow.nn.modules.module import Module

__all__ = ["LazyModuleMixin"]

Shapes = dict[str, tuple[int, ...]]


class LazyModuleMixin:
    """A base for modules with parameters whose shapes are not known yet.

    A subclass holds `UninitializedParameter`s and writes `initialize_parameters(*args, **kwargs)`, which gives them their
    shapes from the arguments of the first call. After that call the module becomes an instance of `cls_to_become`.
    """

    cls_to_become: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        this: Any = self
        this._load_hook = this._register_load_state_dict_pre_hook(this._lazy_load_hook)
        this._initialize_hook = this.register_forward_pre_hook(this._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Save the state; parameters without a shape are kept as they are, because they cannot be detached."""
        this: Any = self
        for name, param in this._parameters.items():
            if param is not None:
                destination[prefix + name] = param if is_lazy(param) or keep_vars else param.detach()
        for name, buffer in this._buffers.items():
            if buffer is not None and name not in this._non_persistent_buffers_set:
                destination[prefix + name] = buffer if is_lazy(buffer) or keep_vars else buffer.detach()

    def _lazy_load_hook(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: object, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Give parameters the shapes they have in the checkpoint, before it is loaded."""
        this: Any = self
        for name, param in (*this._parameters.items(), *this._buffers.items()):
            key = prefix + name
            if key in state_dict and is_lazy(param) and not is_lazy(state_dict[key]):
                param.materialize(state_dict[key].shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes, from the arguments of the first call."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether any parameter or buffer has no shape yet."""
        this: Any = self
        return any(is_lazy(held) for held in (*this._parameters.values(), *this._buffers.values()))

    def _infer_parameters(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        """Run as the forward pre-hook of the first call: initialize the parameters."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")  # type: ignore[attr-defined]
        for handle in ("_initialize_hook", "_load_hook"):
            getattr(module, handle).remove()
            delattr(module, handle)
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> NoReturn:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a forward on a "
            "small batch first: it gives them their shapes"
        )


class OneSizeLazy(LazyModuleMixin):
    """A lazy module with one unknown size, held in the attribute that `_size` names (zero while unknown)."""

    _size: str

    def _size_from(self, input: Tensor) -> int:
        """Return the size that an input implies."""
        raise NotImplementedError

    def _shapes(self) -> Shapes:
        """Return the shapes of the parameters and buffers that depend on the size, once it is known."""
        raise NotImplementedError

    def reset_parameters(self) -> None:
        """Initialize the parameters, once they have shapes."""
        if getattr(self, self._size) and not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor) -> None:
        """Give the parameters their shapes and initialize them, unless a checkpoint did."""
        if not self.has_uninitialized_params():
            return
        setattr(self, self._size, self._size_from(input))
        for name, shape in self._shapes().items():
            held = getattr(self, name)
            if held is not None:
                held.materialize(shape)
        self.reset_parameters()


def lazy_parameter(wanted: bool, options: dict[str, Any]) -> Any:
    """Return a parameter without a shape, or None."""
    return UninitializedParameter(**options) if wanted else None
