"""Ready-made parametrizations: weight norm, spectral norm, orthogonal matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._src.arrays.device.placement import Home, accelerator_among
from undertow._src.base.modes import no_grad
from undertow._src.engine.arguments import wrap_dim
from undertow._src.ops.decompositions import linalg_matrix_exp as matrix_exp
from undertow._src.ops.factor import linalg_solve as solve
from undertow._src.ops.join import cat
from undertow._src.ops.norms import linalg_vector_norm as vector_norm
from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.tensor.creation import eye, zeros_like
from undertow._tensor import Tensor
from undertow.nn import functional as F
from undertow.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from undertow.nn.modules.module import Module
from undertow.nn.utils import parametrize
from undertow.random import randn

if TYPE_CHECKING:
    from undertow.nn.modules.module import ModuleT

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


# --- weight norm


def norm_except_dim(v: Tensor, dim: int) -> Tensor:
    """Return the norm of each slice along a dim (of all for -1), in a shape that broadcasts with the tensor."""
    if dim == -1:
        return vector_norm(v)
    dim = wrap_dim(dim, v.dim())
    others = tuple([axis for axis in range(v.dim()) if axis != dim])
    return vector_norm(v, dim=others, keepdim=True) if others else v.abs()


def weight_from(g: Tensor, v: Tensor, dim: int) -> Tensor:
    """Return the tensor with direction v whose slices have norm g."""
    return v * (g / norm_except_dim(v, dim))


class _WeightNorm(Module):
    """Separates length and direction (Salimans and Kingma, 2016)."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_from(weight_g, weight_v, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: ModuleT, name: str = "weight", dim: int | None = 0) -> ModuleT:
    """Split a tensor into the norms of its slices along a dimension (original0) and its direction (original1)."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def take_old_names(state_dict: dict[str, Any], prefix: str, *rest: object) -> None:
        """Rename weight_g and weight_v, as checkpoints of the old weight_norm call them."""
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for place, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{place}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(take_old_names)
    return module


# --- spectral norm


class _SpectralNorm(Module):
    """Divides a matrix by its largest singular value, found by power iteration (Miyato et al., 2018)."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.ndim}, {weight.ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % weight.ndim
        self.eps = eps
        if weight.ndim > 1:  # a vector needs no power iteration
            self.n_power_iterations = n_power_iterations
            matrix = self._reshape_weight_to_matrix(weight)
            height, width = matrix.size()
            for name, length in (("_u", height), ("_v", width)):
                drawn = matrix.new_empty(length).normal_(0, 1)
                self.register_buffer(name, F.normalize(drawn, dim=0, eps=eps).detach())
            self._power_method(matrix, 15)

    def _reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    def _power_method(self, matrix: Tensor, n_power_iterations: int) -> None:
        with no_grad():
            for _ in range(n_power_iterations):
                self._u.copy_(F.normalize(matrix.mv(self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.mH.mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Copies, because the next call writes to the buffers while this one's graph may still need them.
        u, v = self._u.clone(), self._v.clone()
        return weight / u.vdot(matrix.mv(v))

    def right_inverse(self, value: object) -> Any:
        return value  # a matrix of any norm is scaled; one of norm 1 stays as it is


def spectral_norm(
    module: ModuleT, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> ModuleT:
    """Keep the largest singular value of a tensor, seen as a matrix, at 1."""
    made = _SpectralNorm(_tensor_of(module, name), n_power_iterations, output_dim(module) if dim is None else dim, eps)
    return parametrize.register_parametrization(module, name, made)


def output_dim(module: object) -> int:
    """Return the dim of a layer's weight that indexes its outputs."""
    return int(isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)))


def _tensor_of(module: Module, name: str) -> Any:
    found = getattr(module, name, None)
    if not isinstance(found, TensorCore):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return found


# --- orthogonal matrices


def _qr_factors(matrix: Tensor) -> tuple[Any, Any]:
    """Return LAPACK's compact QR form: reflectors below the diagonal, R above, and the scales."""
    parts = np.asarray(matrix.detach()._array)
    flat = parts.reshape(-1, *parts.shape[-2:])
    raw = [np.linalg.qr(each, mode="raw") for each in flat]
    factors = np.stack([h.T for h, _ in raw]).reshape(parts.shape)
    scales = np.stack([tau for _, tau in raw]).reshape(*parts.shape[:-2], -1)
    with Home(accelerator_among([matrix])):
        return wrap(np.ascontiguousarray(factors)), wrap(scales)


def _product_of_reflections(factors: Tensor, scales: Tensor) -> Tensor:
    """Return the first columns of H₁ H₂ …, where Hᵢ = 1 - scaleᵢ vᵢ vᵢᴴ and vᵢ is column i of factors with a 1 on top."""
    n, k = factors.shape[-2:]
    columns = factors.tril(-1) + eye(n, k, dtype=factors.dtype, device=factors.device)
    result = eye(n, k, dtype=factors.dtype, device=factors.device).expand(*factors.shape)
    for place in reversed(range(k)):
        v = columns[..., place : place + 1]
        scale = scales[..., place : place + 1].unsqueeze(-1)
        result = result - scale * (v @ (v.mH @ result))
    return result


def _make_orthogonal(matrix: Tensor) -> Tensor:
    """Return the orthogonal factor of a matrix, with signs chosen as if R had a positive diagonal."""
    factors, scales = _qr_factors(matrix)
    return _product_of_reflections(factors, scales) * factors.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _is_orthogonal(matrix: Tensor, eps: float | None = None) -> bool:
    n, k = matrix.size(-2), matrix.size(-1)
    product = (matrix.mH @ matrix)._array
    tolerance = 10 * n * np.finfo(product.dtype).eps if eps is None else eps
    return bool(np.allclose(product, np.eye(k, dtype=product.dtype), atol=tolerance))


class _Orthogonal(Module):
    """A matrix with orthonormal columns (or rows), from a matrix without constraints."""

    base: Any

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        transposed = X.size(-2) < X.size(-1)
        if transposed:
            X = X.mT
        n, k = X.size(-2), X.size(-1)
        if self.orthogonal_map == "householder":
            A = X.tril(diagonal=-1)
            scales = 2.0 / (1.0 + (A * A).sum(dim=-2))
            Q = _product_of_reflections(A, scales) * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            X = X.tril()
            if n != k:
                X = cat([X, X.new_zeros(n, n - k).expand(*X.shape[:-2], -1, -1)], dim=-1)
            A = X - X.mH  # skew, so that its exponential is orthogonal
            if self.orthogonal_map == "matrix_exp":
                Q = matrix_exp(A)
            else:
                one = eye(n, dtype=A.dtype, device=A.device)
                Q = solve(one - A * 0.5, one + A * 0.5)
            if n != k:
                Q = Q[..., :k]
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.mT if transposed else Q

    def right_inverse(self, Q: Tensor) -> Tensor:
        with no_grad():
            if Q.shape != self.shape:
                raise ValueError(
                    f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
                )
            given = Q
            transposed = Q.size(-2) < Q.size(-1)
            if transposed:
                Q = Q.mT
            n, k = Q.size(-2), Q.size(-1)
            if hasattr(self, "base"):
                if n == k:
                    self.base = Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
                else:
                    extra = randn((*Q.size()[:-2], n, n - k), dtype=Q.dtype, device=Q.device)
                    self.base = _make_orthogonal(cat([Q, extra], dim=-1))
                # forward of minus the identity returns the base itself
                start = zeros_like(given)
                start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
                return start
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or Cayley's map with "
                    "use_trivialization=False."
                )
            A, scales = _qr_factors(Q)
            A.diagonal(dim1=-2, dim2=-1).sign_()
            # LAPACK leaves a last column that needs no reflection with scale 0; ours would be 2, so its sign turns.
            A.diagonal(dim1=-2, dim2=-1)[scales == 0.0] *= -1
            return A.mT if transposed else A


def orthogonal(
    module: ModuleT, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> ModuleT:
    """Keep a matrix orthogonal, by the matrix exponential, Cayley's map or Householder reflections."""
    weight = _tensor_of(module, name)
    given: Any = weight
    if given.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {given.ndim} dimensions.")
    if orthogonal_map is None:
        square = given.size(-2) == given.size(-1)
        orthogonal_map = "matrix_exp" if square or given.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    orth = _Orthogonal(given, orthogonal_map, use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, orth, unsafe=True)
    return module
