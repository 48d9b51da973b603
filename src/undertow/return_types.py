"""`torch.return_types`: the named tuples that functions with several results return."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any, Self


class NamedResults(tuple[Any, ...]):
    """A tuple whose items also have names, printed as PyTorch prints it."""

    __slots__ = ()

    __match_args__: tuple[str, ...] = ()
    n_fields = n_sequence_fields = n_unnamed_fields = 0

    def __new__(cls, sequence: Iterable[Any], dict: dict[str, Any] | None = None, /) -> Self:
        self = tuple.__new__(cls, sequence)
        if len(self) != cls.n_fields:
            raise TypeError(
                f"torch.return_types.{cls.__name__}() takes a {cls.n_fields}-sequence ({len(self)}-sequence given)"
            )
        return self

    def __repr__(self) -> str:
        fields = ",\n".join(f"{name}={value!r}" for name, value in zip(self.__match_args__, self, strict=True))
        return f"torch.return_types.{type(self).__name__}(\n{fields})"

    def __reduce__(self) -> Any:
        return type(self), (tuple(self), {})


def _named(name: str, fields: str) -> Any:
    names = tuple(fields.split())
    body: dict[str, Any] = {field: property(itemgetter(place)) for place, field in enumerate(names)}
    body |= {"__slots__": (), "__module__": __name__, "__match_args__": names}
    body |= {"n_fields": len(names), "n_sequence_fields": len(names)}
    return type(name, (NamedResults,), body)


aminmax = _named("aminmax", "min max")
cummax = _named("cummax", "values indices")
cummin = _named("cummin", "values indices")
frexp = _named("frexp", "mantissa exponent")
geqrf = _named("geqrf", "a tau")
histogram = _named("histogram", "hist bin_edges")
histogramdd = _named("histogramdd", "hist bin_edges")
kthvalue = _named("kthvalue", "values indices")
linalg_cholesky_ex = _named("linalg_cholesky_ex", "L info")
linalg_eig = _named("linalg_eig", "eigenvalues eigenvectors")
linalg_eigh = _named("linalg_eigh", "eigenvalues eigenvectors")
linalg_inv_ex = _named("linalg_inv_ex", "inverse info")
linalg_ldl_factor = _named("linalg_ldl_factor", "LD pivots")
linalg_ldl_factor_ex = _named("linalg_ldl_factor_ex", "LD pivots info")
linalg_lstsq = _named("linalg_lstsq", "solution residuals rank singular_values")
linalg_lu = _named("linalg_lu", "P L U")
linalg_lu_factor = _named("linalg_lu_factor", "LU pivots")
linalg_lu_factor_ex = _named("linalg_lu_factor_ex", "LU pivots info")
linalg_qr = _named("linalg_qr", "Q R")
linalg_slogdet = _named("linalg_slogdet", "sign logabsdet")
linalg_solve_ex = _named("linalg_solve_ex", "result info")
linalg_svd = _named("linalg_svd", "U S Vh")
lu_unpack = _named("lu_unpack", "P L U")
max = _named("max", "values indices")
median = _named("median", "values indices")
min = _named("min", "values indices")
mode = _named("mode", "values indices")
nanmedian = _named("nanmedian", "values indices")
qr = _named("qr", "Q R")
slogdet = _named("slogdet", "sign logabsdet")
sort = _named("sort", "values indices")
svd = _named("svd", "U S V")
topk = _named("topk", "values indices")
triangular_solve = _named("triangular_solve", "solution cloned_coefficient")

# The result types of PyTorch's private functions, made on demand.
_RARE = {
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": "output mask",
    "_fused_moving_avg_obs_fq_helper": "output mask", "_linalg_det": "result LU pivots",
    "_linalg_eigh": "eigenvalues eigenvectors", "_linalg_slogdet": "sign logabsdet LU pivots",
    "_linalg_solve_ex": "result LU pivots info", "_linalg_svd": "U S Vh", "_lu_with_info": "LU pivots info",
    "_scaled_dot_product_cudnn_attention": "output logsumexp cum_seq_q cum_seq_k max_q max_k philox_seed philox_offset "
    "debug_attn_mask",
    "_scaled_dot_product_efficient_attention": "output log_sumexp philox_seed philox_offset",
    "_scaled_dot_product_flash_attention": "output logsumexp cum_seq_q cum_seq_k max_q max_k rng_state unused "
    "debug_attn_mask",
    "_scaled_dot_product_flash_attention_for_cpu": "output logsumexp", "_unpack_dual": "primal tangent",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Return a rare type, or one such as `max_out`, which has the fields of `max`."""
    if name == "all_return_types":
        found = [each for each in globals().values() if isinstance(each, type) and issubclass(each, NamedResults)]
        return [each for each in found if each is not NamedResults]
    plain = name.removesuffix("_out")
    fields = _RARE.get(plain) or " ".join(getattr(globals().get(plain), "__match_args__", ()))
    if not fields:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = _named(name, fields)
    return globals()[name]
