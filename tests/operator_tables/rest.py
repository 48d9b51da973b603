"""Operators under their older or inner names, copies of views, random numbers, windows and rare functions.

Their dtypes, and what they support, are in `operator_facts.txt`.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from tests.operator_tables.kinds import ReductionOpInfo, gradcheck_wrapper_hermitian_input
from tests.operator_tables.making import Calls, operator, seeded
from tests.operator_tables.op_info import OpInfo
from tests.operator_tables.pointwise import BinaryUfuncInfo, UnaryUfuncInfo
from undertow._src.types import dtypes as d
from undertow._tensor import Tensor
from undertow.testing._creation import Maker
from undertow.testing._utils import wrapper_set_seed

_NO_VARIANTS = {"method_variant": None, "inplace_variant": None}


def rest_of_operators() -> list[OpInfo]:
    """All of these."""
    return [*_methods(), *_copies(), *_random(), *_made(), *_matrices(), *_inner(), *_layers(), *_elementwise()]


def _row(name: str, calls: Calls, **options: Any) -> OpInfo:
    return operator(name, "f", calls, **options)


def _plain(name: str, calls: Calls, **options: Any) -> OpInfo:
    """Return a function that is no method."""
    return _row(name, calls, **_NO_VARIANTS, **options)


def _method(name: str, calls: Calls, **options: Any) -> OpInfo:
    """Return a method of tensors."""
    method = getattr(Tensor, name)
    return _row(name, calls, op=lambda tensor, *args, **kwargs: method(tensor, *args, **kwargs), **options)


def _attribute(name: str, calls: Calls) -> OpInfo:
    return _plain(name, calls, op=lambda tensor: getattr(tensor, name))


def _methods() -> list[OpInfo]:
    def sized(t: Maker) -> list[Any]:
        return [(t(2), (2, 3)), (t(2), (2,), {"dtype": t.dtype})]

    return [
        _method("item", lambda t: [t(), t(1), t(1, 1)], method_variant=None),
        *[_attribute(name, lambda t: [t(2, 3), t(3, 2)]) for name in ("T", "H")],
        *[_attribute(name, lambda t: [t(2, 3), t(2, 3, 4)]) for name in ("mT", "mH")],
        _method("to", lambda t: [(t(2, 3), t.dtype), (t(2), d.float64), (t(2), t(1)), (t(2), t.dtype, {"copy": True})]),
        _method("to_sparse", lambda t: [t(3, 4), (t(3, 4), 1)], gradcheck_wrapper=_dense),
        _method("resize_", lambda t: [(t(6), (2, 3)), (t(2, 3), (3,))], **_NO_VARIANTS),
        _method("resize_as_", lambda t: [(t(6), t(2, 3))], **_NO_VARIANTS),
        _plain("zero_", lambda t: [t(2, 3), t(3)], op=lambda tensor: tensor.clone().zero_()),
        *[_method(name, sized) for name in ("new_zeros", "new_ones", "new_empty")],
        _method("new_full", lambda t: [(t(2), (2, 3), 1), (t(2), (2,), 0, {"dtype": t.dtype})]),
        _method("new_empty_strided", lambda t: [(t(2), (2, 3), (3, 1)), (t(2), (2, 3), (1, 2), {"dtype": t.dtype})]),
        _method("__rmatmul__", lambda t: [(t(2, 3), t(4, 2)), (t(3), t(3)), (t(2, 3, 4), t(5, 3))]),
        *[
            UnaryUfuncInfo(name, dtypes=(d.float32,), op=partial(_converted, name))
            for name in "bfloat16 bool byte char double float half int long short cdouble cfloat".split()
        ],
    ]  # fmt: skip


def _dense(op: Any, *args: Any, **kwargs: Any) -> Any:
    return op(*args, **kwargs).to_dense()


def _converted(name: str, tensor: Any, **options: Any) -> Any:
    return getattr(tensor, name)(**options)


def _copies() -> list[OpInfo]:
    """View that are copies, and pieces that know nothing of each other."""
    return [
        _plain("alias_copy", lambda t: [t(2, 3), t()]),
        _plain("as_strided_copy", lambda t: [(t(8), (2, 3), (1, 2)), (t(8), (2, 2), (3, 1), 1)]),
        _row("as_strided/partial_views", lambda t: [(t(8)[2:6].detach(), (2, 2), (1, 1), 3)]),
        _row("as_strided_scatter", lambda t: [(t(8), t(2, 3), (2, 3), (3, 1)), (t(8), t(2), (2,), (2,), 1)]),
        _plain("diagonal_copy", lambda t: [t(3, 3), (t(2, 3, 4), 1, 0, 2)]),
        _plain("expand_copy", lambda t: [(t(3), (2, 3)), (t(2, 1), (-1, 4))]),
        _row("narrow_copy", lambda t: [(t(5, 2), 0, 1, 3), (t(5), -1, 2, 2)]),
        _plain("permute_copy", lambda t: [(t(2, 3, 4), (2, 0, 1))]),
        _plain("split_with_sizes_copy", lambda t: [(t(5), [2, 3]), (t(2, 5), [1, 4], 1)]),
        _plain("squeeze_copy", lambda t: [t(1, 3, 1), (t(1, 3), 0)]),
        _plain("t_copy", lambda t: [t(2, 3), t(3)]),
        _plain("transpose_copy", lambda t: [(t(2, 3), 0, 1), (t(2, 3, 4), -1, 0)]),
        _plain("unbind_copy", lambda t: [t(3, 2), (t(2, 3), 1)]),
        _plain("unfold_copy", lambda t: [(t(6), 0, 3, 2), (t(2, 5), 1, 2, 1)]),
        _plain("unsqueeze_copy", lambda t: [(t(3), 0), (t(2, 3), -1)]),
        _plain("view_copy", lambda t: [(t(2, 6), (3, 4)), (t(2, 3), (-1,))]),
        _row("unsafe_chunk", lambda t: [(t(5, 2), 2), (t(2, 5), 3, 1)]),
        _row("unsafe_split", lambda t: [(t(5, 2), 2), (t(2, 5), 3, 1)]),
        _plain("slice", lambda t: [(t(5), 0, 1, 4), (t(3, 4), 1, None, 3, 2)], op=_sliced),
        _plain("trapz", lambda t: [t(4), (t(2, 4), t(4)), (t(2, 4), {"dx": 2.0, "dim": 0})]),
    ]  # fmt: skip


def _sliced(tensor: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    return tensor[(slice(None),) * (dim % tensor.dim()) + (slice(start, end, step),)]


def _random() -> list[OpInfo]:
    def drawn(name: str, calls: Calls, variant: str = "") -> OpInfo:
        method = getattr(Tensor, f"{name}_")
        return _plain(
            f"{name}/{variant}", calls, op=lambda tensor, *args: wrapper_set_seed(method, tensor.clone(), *args)
        )

    return [
        drawn("cauchy", lambda t: [(t(3), 0.0, 1.0), (t(2, 3), 1.0, 2.0)]),
        drawn("exponential", lambda t: [(t(3), 1.0), (t(2, 3), 0.5)]),
        drawn("geometric", lambda t: [(t(3), 0.2), (t(2, 3), 0.5)]),
        drawn("log_normal", lambda t: [(t(3), 0.0, 0.5), (t(2, 3), 1.0, 0.25)]),
        drawn("normal", lambda t: [(t(3), 0.0, 1.0), (t(2, 3), 1.0, 2.0)], "in_place"),
        drawn("uniform", lambda t: [(t(3), 0.0, 1.0), (t(2, 3), -1.0, 2.0)]),
        _plain("normal", lambda t: [(t(3), t(3, low=0.2, high=2)), (t(2, 3), 1.5), (t(2, 3), t(3, low=0.2, high=2))],
               op=seeded("normal")),
        _plain("normal/number_mean", lambda t: [(0.5, t(3, low=0.2, high=2)), (1.0, t(2, 3, low=0.2, high=2))],
               op=seeded("normal")),
        _plain("randint", lambda t: [(5, (2, 3), {"dtype": t.dtype}), (1, 4, (3,), {"dtype": t.dtype})],
               op=seeded("randint")),
        _plain("randint_like", lambda t: [(t(2, 3), 5), (t(3), 1, 4)], op=seeded("randint_like")),
        *[
            _plain(f"nn.functional.{name}", lambda t: [(t(2, 3, 4, 4), {"p": 0.0}), (t(2, 3, 4, 4), {"training": False})])
            for name in ("dropout2d", "alpha_dropout")
        ],
        _plain("nn.functional.dropout3d", lambda t: [(t(2, 3, 2, 2, 2), {"p": 0.0})]),
        _plain("nn.functional.feature_alpha_dropout/with_train", lambda t: [(t(2, 3, 4), {"p": 0.0, "training": True})]),
        _plain("nn.functional.feature_alpha_dropout/without_train", lambda t: [(t(2, 3), {"training": False})]),
    ]  # fmt: skip


_WINDOWS: dict[str, dict[str, Any]] = {
    "hamming": {}, "hann": {}, "bartlett": {}, "blackman": {}, "cosine": {}, "nuttall": {}, "kaiser": {"beta": 8.0},
    "exponential": {"tau": 2.78}, "gaussian": {"std": 1.9}, "general_cosine": {"a": [0.54, 0.46]},
    "general_hamming": {"alpha": 0.54},
}  # fmt: skip


def _made() -> list[OpInfo]:
    def windows(more: dict[str, Any], t: Maker) -> list[Any]:
        return [(size, {**more, "sym": sym, "dtype": t.dtype}) for size in (1, 5) for sym in (True, False)]

    def ends(t: Maker, *more: Any) -> list[Any]:
        return [
            (t(low=1, high=3), t(low=4, high=6), 5, {"dtype": t.dtype}),
            (1, t(low=4, high=6), 3, {"dtype": t.dtype}),
        ]

    return [
        *[_plain(f"signal.windows.{name}", partial(windows, more)) for name, more in _WINDOWS.items()],
        _plain("broadcast_shapes", lambda t: [((2, 1), (3,)), ((1,), (2, 3), (2, 1))]),
        _plain("empty_permuted", lambda t: [((2, 3), (1, 0), {"dtype": t.dtype})]),
        _plain("empty_strided", lambda t: [((2, 3), (1, 2), {"dtype": t.dtype})]),
        _plain("scalar_tensor", lambda t: [(1, {"dtype": t.dtype})]),
        _plain("linspace/tensor_overload", ends), _plain("logspace/tensor_overload", ends),
        _row("nonzero_static", lambda t: [(t(2, 3), {"size": 4}), (t(3), {"size": 5, "fill_value": -2})]),
        _plain("unravel_index", lambda t: [(t(3, low=0, high=12), (3, 4)), (t(low=0, high=5), (5,))]),
        _row("histogram", lambda t: [(t(5), 4), (t(5), t.given([0.0, 1.0, 3.0]).to(t.dtype))]),
        _plain("histogramdd", lambda t: [(t(5, 2), [2, 3]), (t(4, 1), [3], {"density": True})]),
    ]  # fmt: skip


def _matrices() -> list[OpInfo]:
    def low_rank(t: Maker) -> Any:
        return (t(4, 1) @ t(1, 3)).detach().requires_grad_(t.requires_grad)

    def spectrum(t: Maker) -> list[Any]:
        return [(t(16), {"n_fft": 8, "return_complex": True}), (t(2, 16), 8, 4, {"return_complex": True})]

    hermitian = {"gradcheck_wrapper": gradcheck_wrapper_hermitian_input}
    return [
        _row("addmm/decomposed", lambda t: [(t(2, 4), t(2, 3), t(3, 4), {"beta": 2, "alpha": 3})]),
        _row("cholesky", lambda t: [t.positive(3, 3), (t.positive(2, 3, 3), True)], **hermitian),
        _row("geqrf", lambda t: [t(3, 2), t(2, 3, 3)]),
        _row("qr", lambda t: [t(3, 2), t(2, 3, 3)]),
        _row("ormqr", lambda t: [(*_reflectors(t), t(3, 2)), (*_reflectors(t), t(2, 3), False)]),
        _row("lu", lambda t: [t.regular(3, 3), t.regular(2, 3, 3)]),
        _row("lu_solve", lambda t: [(t(3, 2), *_factors(t))]),
        _plain("lu_unpack", lambda t: [_factors(t)]),
        _row("svd", lambda t: [t(3, 2)], gradcheck_wrapper=_sizes),
        _plain("svd_lowrank", lambda t: [(t(4, 3), {"q": 3})], op=_product_of("svd_lowrank")),
        _plain("pca_lowrank", lambda t: [(t(4, 3), {"q": 3})], op=_product_of("pca_lowrank")),
        _row("pinverse", lambda t: [t(3, 2)]),
        _row("stft", spectrum), _row("istft", lambda t: [(t(5, 5), 8), (t(2, 5, 5), 8, {"length": 20})]),
        _row("norm/nuc", lambda t: [(t(3, 2), "nuc"), (t(2, 3, 3), "nuc", (1, 2))]),
        _row("norm/fro", lambda t: [(t(3, 2), "fro"), (t(2, 3, 3), "fro", (1, 2))]),
        _row("norm/inf", lambda t: [(t(3), float("inf")), (t(2, 3), -float("inf"), 1)]),
        _row("linalg.householder_product", lambda t: [_reflectors(t)]),
        _row("linalg.inv_ex", lambda t: [t.regular(3, 3)]),
        _row("linalg.lu_factor_ex", lambda t: [t.regular(3, 3)]),
        _row("linalg.lu_solve", lambda t: [(*_factors(t), t(3, 2))]),
        _row("linalg.lstsq/grad_oriented", lambda t: [(t(4, 2), t(4, 2))],
             op=lambda a, b, driver=None: import_module("undertow").linalg.lstsq(a, b, driver=driver)[0]),
        _row("linalg.matrix_rank/hermitian", lambda t: [(t.positive(3, 3), {"hermitian": True})]),
        _row("linalg.norm/subgradients_at_zero", lambda t: [((t(3) * 0).detach().requires_grad_(t.requires_grad), 2)]),
        _row("linalg.pinv/hermitian", lambda t: [(t.positive(3, 3), {"hermitian": True})], **hermitian),
        _row("linalg.pinv/singular", lambda t: [low_rank(t)], gradcheck_wrapper=_kept_singular),
        _row("linalg.solve_ex", lambda t: [(t.regular(3, 3), t(3)), (t.regular(3, 3), t(3, 2))]),
        _row("linalg.tensorsolve", lambda t: [
            (t.regular(4, 4).detach().reshape(2, 2, 4).requires_grad_(t.requires_grad), t(2, 2))]),
        *[
            _row(f"linalg.{name}", lambda t: [t.positive(3, 3), (t.positive(2, 3, 3), {"hermitian": t.dtype.is_complex})])
            for name in ("ldl_factor", "ldl_factor_ex")
        ],
        _row("linalg.ldl_solve", lambda t: [
            (*import_module("undertow").linalg.ldl_factor(t.positive(3, 3).detach()), t(3, 2))]),
    ]  # fmt: skip


def _factors(t: Maker) -> tuple[Any, Any]:
    """Return the LU factors of a matrix as one, and where its rows went."""
    factors, rows = import_module("undertow").linalg.lu_factor(t.regular(3, 3).detach())
    return factors.requires_grad_(t.requires_grad), rows


def _reflectors(t: Maker) -> tuple[Any, Any]:
    """Return what `geqrf` makes of a matrix."""
    made = import_module("undertow").geqrf(t(3, 2).detach())
    return made[0].requires_grad_(t.requires_grad), made[1].requires_grad_(t.requires_grad)


def _sizes(op: Any, *args: Any, **kwargs: Any) -> Any:
    return tuple(part.abs() for part in op(*args, **kwargs))


def _kept_singular(op: Any, matrix: Any, *args: Any, **kwargs: Any) -> Any:
    """For gradcheck: a matrix of rank one whatever is added to its first column and row."""
    return op(matrix[:, :1] @ matrix[:1].detach(), *args, **kwargs)


def _product_of(name: str) -> Any:
    """Return the product of what a function takes a matrix apart into: the parts by themselves are nobody's choice."""

    def product(matrix: Any, **kwargs: Any) -> Any:
        u, s, v = wrapper_set_seed(getattr(import_module("undertow"), name), matrix, **kwargs)
        return (u * s) @ v.mH

    return product


def _inner() -> list[OpInfo]:
    def reduced(how: str, t: Maker) -> list[Any]:
        return [
            (t(3, 2), 0, t.given([0, 2, 0]), t(3, 2), how),
            (t(4), 0, t.given([1]), t(1), how, {"include_self": False}),
        ]

    def unbiased(t: Maker) -> list[Any]:
        return [(t(4), True), (t(2, 3), False)]

    return [
        *[_row(f"index_reduce/{how}", partial(reduced, how)) for how in ("mean", "prod", "amin", "amax")],
        *[_plain(f"{name}/unbiased", unbiased) for name in ("var_mean", "std_mean")],
        *[
            ReductionOpInfo(name, variant_test_name="unbiased", dtypes=(d.float32,), sample_inputs_func=_row(
                name, unbiased).sample_inputs_func)
            for name in ("std", "var")
        ],
        *[
            _row(f"{name}/with_dtype", lambda t: [(t(3), 0, {"dtype": d.float64}), (t(2, 3), 1, {"dtype": d.float64})])
            for name in ("softmax", "log_softmax")
        ],
        _plain("nn.functional.softmin/with_dtype", lambda t: [(t(2, 3), {"dim": 1, "dtype": d.float64})]),
        _plain("native_layer_norm", lambda t: [(t(2, 3), (3,), t(3), t(3), 1e-5), (t(2, 3), (3,), None, None, 1e-3)]),
        _plain("native_group_norm", lambda t: [(t(2, 4, 3), t(4), t(4), 2, 4, 3, 2, 1e-5)]),
        _plain("native_batch_norm", lambda t: [
            (t(3, 2, 4), t(2), t(2), t(2, grad=False), t(2, low=1, high=2, grad=False), True, 0.1, 1e-5)]),
        _plain("grid_sampler_2d", lambda t: [(t(1, 2, 4, 4), t(1, 3, 3, 2, low=-1, high=1), 0, 0, False)]),
        _plain("grid_sampler_3d", lambda t: [(t(1, 2, 3, 3, 3), t(1, 2, 2, 2, 3, low=-1, high=1), 0, 0, False)]),
        _plain("sparse.mm/reduce", lambda t: [(t(3, 4).detach().to_sparse(), t(4, 2), "sum")],
               op=lambda *args: import_module("undertow").sparse.mm(*args)),
    ]  # fmt: skip


def _layers() -> list[OpInfo]:
    def row(name: str, calls: Calls, **options: Any) -> OpInfo:
        return _plain(f"nn.functional.{name}", calls, **options)

    def unpooled(dims: int, t: Maker) -> list[Any]:
        functional = import_module("undertow.nn.functional")
        small, places = getattr(functional, f"max_pool{dims}d")(t(2, *[4] * dims).detach(), 2, return_indices=True)
        return [(small.requires_grad_(t.requires_grad), places, 2)]

    def attended(t: Maker) -> list[Any]:
        return [(t(3, 1, 4), t(3, 1, 4), t(3, 1, 4), 4, 2, t(12, 4), t(12), None, None, False, 0.0, t(4, 4), t(4))]

    def logits(t: Maker) -> list[Any]:
        return [(t(4, 3), t(5, 3), t.whole(5, 4)), (t(4, 3), t(5, 3), t.whole(5, 4), {"reduction": "sum"})]

    resized = {"scale_factor": 2}
    return [
        row("pad/replicate_negative", lambda t: [
            (t(2, 5), (-1, 2), "replicate"), (t(1, 2, 4, 4), (1, 1, -1, 0), "replicate")]),
        row("upsample_nearest", lambda t: [(t(1, 2, 4), resized), (t(1, 2, 3, 4), {"size": 6})]),
        row("upsample_bilinear", lambda t: [(t(1, 2, 3, 4), resized), (t(1, 2, 3, 4), {"size": (6, 6)})]),
        *[
            row(f"fractional_max_pool{dims}d", lambda t, dims=dims: [(t(1, 2, *[6] * dims), 2, {"output_size": 3})],
                op=seeded(f"nn.functional.fractional_max_pool{dims}d"))
            for dims in (2, 3)
        ],
        *[row(f"max_unpool{dims}d{variant}", partial(unpooled, dims)) for dims in (1, 2, 3) for variant in ("", "/grad")],
        row("triplet_margin_with_distance_loss", lambda t: [(t(3, 4), t(3, 4), t(3, 4)), (
            t(3, 4), t(3, 4), t(3, 4), {"margin": 0.5, "swap": True})]),
        row("multi_head_attention_forward", attended),
        row("linear_cross_entropy", logits),
        *[
            row(f"linear_cross_entropy/{variant}", lambda t: logits(t)[:1])
            for variant in ("chunked", "chunked_none")
        ],
        row("batch_norm/without_cudnn", lambda t: [(t(3, 2), None, None, {"training": True})]),
    ]  # fmt: skip


_RARE_OF_ONE = (
    "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 "
    "modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0"
).split()
_POLYNOMIALS = (
    "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h "
    "hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t "
    "shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w"
).split()


def _elementwise() -> list[OpInfo]:
    def unary(name: str, variant: str = "", low: float | None = None, **options: Any) -> OpInfo:
        return UnaryUfuncInfo(name, variant_test_name=variant, dtypes=(d.float32,), domain=(low, None), **options)

    def numbered(name: str, n: int, variant: str) -> OpInfo:
        def function(tensor: Any, n: int = n, **kwargs: Any) -> Any:
            home: Any = import_module("undertow.special" if "." in name else "undertow")
            return home.polygamma(n, tensor, **kwargs)

        return unary(name, variant, 0.5, op=function, sample_kwargs=lambda device, dtype, input: ({"n": n}, {"n": n}),
                     **({} if "." in name else {"method_variant": _last_first("polygamma", n)}))  # fmt: skip

    def gamma(p: int) -> OpInfo:
        return unary("mvlgamma", f"mvlgamma_p_{p}", (p + 1) / 2, sample_kwargs=lambda *_: ({"p": p}, {"d": p}))

    return [
        *[unary(f"special.{name}", low=0.1 if "_k" in name or "_y" in name else None) for name in _RARE_OF_ONE],
        *[
            BinaryUfuncInfo(f"special.{name}", dtypes=(d.float32,), lhs_make_tensor_kwargs={"low": -1, "high": 1},
                            rhs_make_tensor_kwargs={"low": 0, "high": 5})
            for name in _POLYNOMIALS
        ],
        *[numbered("polygamma", n, f"polygamma_n_{n}") for n in (0, 2, 3, 4)],
        numbered("special.polygamma", 0, "special_polygamma_n_0"),
        *[gamma(p) for p in (1, 5)],
        unary("round", "decimals_0", sample_kwargs=lambda *_: ({"decimals": 0}, {"decimals": 0})),
        unary("nn.functional.silu", "complex"),
        *[BinaryUfuncInfo(name, variant_test_name="binary", dtypes=(d.float32,), supports_rhs_python_scalar=False)
          for name in ("max", "min")],
        *[
            _reflected(name)
            for name in "__radd__ __rsub__ __rmul__ __rdiv__ __rmod__ __rpow__ __rand__ __ror__ __rxor__".split()
        ],
    ]  # fmt: skip


def _last_first(name: str, n: int) -> Any:
    method = getattr(Tensor, name)
    return lambda tensor, n=n: method(tensor, n)


def _reflected(name: str) -> OpInfo:
    """Return an operator with its sides exchanged."""
    method = getattr(Tensor, name)
    away = {"low": 0.5, "high": 3, "exclude_zero": True}
    return BinaryUfuncInfo(
        name, dtypes=(d.float32,), op=lambda tensor, other: method(tensor, other), supports_two_python_scalars=False,
        lhs_make_tensor_kwargs=away if name in ("__rdiv__", "__rmod__", "__rpow__") else None,
        rhs_make_tensor_kwargs=away if name == "__rpow__" else None,
    )  # fmt: skip
