"""The older spectral norm, by a forward pre-hook and hooks around the state dict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow._src.base.modes import no_grad
from undertow._tensor import Tensor
from undertow.nn import functional as F
from undertow.nn.modules.module import Module
from undertow.nn.utils._weight_hooks import WeightHook
from undertow.nn.utils.parametrizations import output_dim

if TYPE_CHECKING:
    from undertow.nn.modules.module import ModuleT

__all__ = [
    "SpectralNorm", "SpectralNormLoadStateDictPreHook", "SpectralNormStateDictHook", "remove_spectral_norm",
    "spectral_norm",
]  # fmt: skip


class SpectralNorm(WeightHook):
    """A forward pre-hook that divides the weight by its largest singular value."""

    _version = 1
    _function = "spectral_norm"
    _parts = ("_u", "_v", "_orig")

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        self.name = name
        self.dim = dim
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """Return the weight as a matrix, with the output dimension first."""
        if self.dim != 0:
            weight = weight.movedim(self.dim, 0)
        return weight.reshape(weight.size(0), -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return the weight divided by its largest singular value; in training, iterate on that estimate first."""
        weight = getattr(module, self.name + "_orig")
        u = getattr(module, self.name + "_u")
        v = getattr(module, self.name + "_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.t().mv(u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.mv(v), dim=0, eps=self.eps))
                # Copies, because the next call writes to the buffers while this one's graph may still need them.
                u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))

    def _weight(self, module: Module, training: bool) -> Tensor:
        return self.compute_weight(module, do_power_iteration=training)

    def _solve_v_and_rescale(self, matrix: Tensor, u: Tensor, target_sigma: Tensor) -> Tensor:
        """Solve for the v that gives this singular value with u, for checkpoints that lack v."""
        v = (matrix.t() @ matrix).pinverse().matmul(matrix.t() @ u.unsqueeze(1)).squeeze(1)
        return v.mul_(target_sigma / u.dot(matrix @ v))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Replace the weight by weight_orig and register the hooks."""
        SpectralNorm._refuse_a_second(module, name)
        made = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        made._refuse_lazy(weight)
        with no_grad():
            drawn = [weight.new_empty(n).normal_(0, 1) for n in made.reshape_weight_to_matrix(weight).shape]
            vectors = [F.normalize(vector, dim=0, eps=eps) for vector in drawn]
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        setattr(module, name, weight.data)  # for code that reads it before the first call
        for part, vector in zip(("_u", "_v"), vectors):
            module.register_buffer(name + part, vector)
        module.register_forward_pre_hook(made)
        module._register_state_dict_hook(SpectralNormStateDictHook(made))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(made))
        return made


class SpectralNormLoadStateDictPreHook:
    """Computes v for checkpoints from before it was saved."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        fn = self.fn
        version = local_metadata.get("spectral_norm", {}).get(fn.name + ".version", None)
        if version is not None and version >= 1:
            return
        key = prefix + fn.name
        names = [key + ending for ending in ("_orig", "", "_u")]
        if version is None and all(name in state_dict for name in names) and key + "_v" not in state_dict:
            with no_grad():
                original = state_dict[key + "_orig"]
                sigma = (original / state_dict.pop(key)).mean()
                matrix = fn.reshape_weight_to_matrix(original)
                state_dict[key + "_v"] = fn._solve_v_and_rescale(matrix, state_dict[key + "_u"], sigma)


class SpectralNormStateDictHook:
    """Records in the metadata that v is saved too."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: object, prefix: str, local_metadata: dict[str, Any]) -> None:
        noted = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in noted:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        noted[key] = self.fn._version


def spectral_norm(
    module: ModuleT, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> ModuleT:
    """Keep the largest singular value of a weight at 1. `parametrizations.spectral_norm` is the newer one."""
    SpectralNorm.apply(module, name, n_power_iterations, output_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module: ModuleT, name: str = "weight") -> ModuleT:
    """Remove spectral norm."""
    SpectralNorm._take_off(module, name)
    for hooks in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for identity, hook in list(hooks.items()):
            inner = getattr(hook, "hook", hook)
            if (
                isinstance(inner, (SpectralNormStateDictHook, SpectralNormLoadStateDictPreHook))
                and inner.fn.name == name
            ):
                del hooks[identity]
                break
    return module
