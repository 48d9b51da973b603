"""Pruning: a mask keeps some of a parameter's entries at zero.

A pruned parameter `weight` is stored as `weight_orig` and its mask as the buffer `weight_mask`. Before every call a
forward pre-hook, the pruning method, computes `weight` from the two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from undertow._src.ops.join import cat
from undertow._src.ops.norms import norm
from undertow._src.tensor.creation import ones_like, zeros_like
from undertow.random import rand, rand_like

if TYPE_CHECKING:
    from collections.abc import Sequence

    from undertow._tensor import Tensor
    from undertow.nn.modules.module import Module, ModuleT

# --- methods


class BasePruningMethod(ABC):
    """A way to choose what is pruned, and the pre-hook that applies the mask."""

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Module, inputs: Sequence[Tensor]) -> None:
        """Run as the forward pre-hook: set the masked parameter."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask for a tensor of importances, given the mask so far."""

    def apply_mask(self, module: Module) -> Tensor:
        """Return the masked parameter."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask = getattr(module, self._tensor_name + "_mask")
        original = getattr(module, self._tensor_name + "_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> Any:
        """Prune a parameter of a module; one that is pruned already is pruned further."""
        earlier = _take_off(module, name)
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        if isinstance(earlier, PruningContainer):
            earlier.add_pruning_method(method)
            method = earlier
        elif earlier is not None:
            container = PruningContainer(earlier)
            container.add_pruning_method(method)
            method = container
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, got "
                f"{importance_scores.shape} vs {original.shape}"
            )
        fresh = not isinstance(method, PruningContainer)
        if fresh:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            so_far = ones_like(original)
        else:
            so_far = getattr(module, name + "_mask").detach().clone()
        try:
            module.register_buffer(name + "_mask", method.compute_mask(importance_scores, default_mask=so_far))
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if fresh:  # restore the parameter
                original = getattr(module, name + "_orig")
                module.register_parameter(name, original)
                del module._parameters[name + "_orig"]
            raise
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """Return a pruned copy of a tensor that belongs to no module."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        so_far = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=so_far)

    def remove(self, module: Module) -> None:
        """Make the pruning permanent: the parameter takes the pruned values."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters[name + "_orig"]
        original.data = weight.data
        del module._parameters[name + "_orig"]
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


def _take_off(module: Module, name: str) -> Any:
    """Remove the pruning hook of a parameter and return it, if there is one."""
    found = [
        identity
        for identity, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]
    if len(found) > 1:
        raise AssertionError(
            f"Avoid having multiple pruning hooks on the same tensor {name} in module {module}. Use a PruningContainer."
        )
    return module._forward_pre_hooks.pop(found[0]) if found else None


class PruningContainer(BasePruningMethod):
    """Several methods on one parameter, one after the other."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if not isinstance(args, Iterable) or not args:
            return
        self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Add a method at the end."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the newest method's mask of what is left, on top of the mask so far."""
        method, mask = self._pruning_methods[-1], default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            left: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.dim() if hasattr(method, "dim") else 0
            others = [axis for axis in range(t.dim()) if axis != dim]
            kept = mask.sum(dim=others) != 0  # channels that are not fully pruned
            left = (slice(None),) * dim + (kept,)
        elif method.PRUNING_TYPE == "global":
            left = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask[left] = method.compute_mask(t[left], default_mask=mask[left]).to(dtype=mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing, but adds a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes entries at random."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without_first(t, default_mask, self.amount, lambda count: rand_like(t).view(-1).topk(count).indices)


class L1Unstructured(BasePruningMethod):
    """Prunes the entries of smallest absolute value."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without_first(
            t, default_mask, self.amount, lambda count: t.abs().view(-1).topk(count, largest=False).indices
        )


def _without_first(t: Tensor, default_mask: Tensor, amount: float, choose: Callable[[int], Tensor]) -> Tensor:
    size = t.nelement()
    count = _compute_nparams_toprune(amount, size)
    _validate_pruning_amount(count, size)
    mask = default_mask.clone()
    if count:
        mask.view(-1)[choose(count)] = 0
    return mask


class RandomStructured(BasePruningMethod):
    """Prunes whole channels at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _channels_to_prune(t, self.dim, self.amount)
        if count == 0:
            return default_mask
        drawn = rand(t.shape[self.dim], device=t.device)
        return _channel_mask(t, self.dim, drawn > drawn.kthvalue(count).values) * default_mask.to(dtype=t.dtype)


class LnStructured(BasePruningMethod):
    """Prunes the channels of smallest Ln norm."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: float | str, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _channels_to_prune(t, self.dim, self.amount)
        if count == 0:
            return default_mask
        largest = _compute_norm(t, self.n, self.dim).topk(t.shape[self.dim] - count).indices
        return _channel_mask(t, self.dim, largest) * default_mask.to(dtype=t.dtype)


def _channels_to_prune(t: Tensor, dim: int, amount: float) -> int:
    _validate_structured_pruning(t)
    _validate_pruning_dim(t, dim)
    channels = t.shape[dim]
    count = _compute_nparams_toprune(amount, channels)
    _validate_pruning_amount(count, channels)
    return count


def _channel_mask(t: Tensor, dim: int, kept: Tensor) -> Tensor:
    mask = zeros_like(t)
    places: list[Any] = [slice(None)] * t.dim()
    places[dim] = kept
    mask[tuple(places)] = 1
    return mask


class CustomFromMask(BasePruningMethod):
    """Prunes where a given mask is zero."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)


# --- functions


def identity(module: ModuleT, name: str) -> ModuleT:
    """Add a mask to a parameter without pruning anything."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: ModuleT, name: str, amount: float) -> ModuleT:
    """Prune entries at random: a fraction or a number of them."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: ModuleT, name: str, amount: float, importance_scores: Tensor | None = None) -> ModuleT:
    """Prune the entries of smallest absolute value, or of smallest importance."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: ModuleT, name: str, amount: float, dim: int) -> ModuleT:
    """Prune whole channels along a dimension at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: ModuleT, name: str, amount: float, n: float | str, dim: int, importance_scores: Tensor | None = None
) -> ModuleT:
    """Prune the channels along a dimension that have the smallest Ln norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: ModuleT, name: str, mask: Tensor) -> ModuleT:
    """Prune where a mask is zero."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]], pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None, **kwargs: Any,
) -> None:  # fmt: skip
    """Prune several parameters, given as (module, name), as if they were one."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    listed = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    together = cat([scores.get((module, name), getattr(module, name)).view(-1) for module, name in listed])
    so_far = cat(
        [getattr(module, name + "_mask", ones_like(getattr(module, name))).view(-1) for module, name in listed]
    )
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
            f"Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    mask = container.compute_mask(together, so_far)
    start = 0
    for module, name in listed:
        held = getattr(module, name)
        custom_from_mask(module, name, mask=mask[start : start + held.numel()].view_as(held))
        start += held.numel()


def remove(module: ModuleT, name: str) -> ModuleT:
    """Make the pruning permanent and remove the hook."""
    method = _take_off(module, name)
    if method is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    method.remove(module)
    return module


def is_pruned(module: Module) -> bool:
    """Whether any parameter here or below is pruned."""
    return any(
        isinstance(hook, BasePruningMethod) for part in module.modules() for hook in part._forward_pre_hooks.values()
    )


# --- checks


def _validate_pruning_amount_init(amount: float) -> None:
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1.0):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a count")


def _validate_pruning_amount(amount: float, tensor_size: int) -> None:
    if isinstance(amount, int) and amount > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _validate_structured_pruning(t: Tensor) -> None:
    if t.dim() <= 1:
        raise ValueError(
            f"Structured pruning can only be applied to multidimensional tensors, not to one of shape {t.shape}"
        )


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_nparams_toprune(amount: float, tensor_size: int) -> int:
    return amount if isinstance(amount, int) else round(amount * tensor_size)


def _compute_norm(t: Tensor, n: object, dim: int) -> Tensor:
    """Return the Ln norm of each channel along a dimension."""
    others = [axis for axis in range(t.dim()) if axis != dim % t.dim()]
    return norm(t, p=n, dim=others)
