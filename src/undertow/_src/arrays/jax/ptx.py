"""Functions of the GPU's own instructions, where PyTorch's kernels use them and XLA does not.

PyTorch's random kernels take fast approximations of logarithm, sine and exponential, exactly rounded roots and quotients,
and fused multiply-adds. XLA chooses differently for all of them. So these functions are PTX, in a Pallas kernel over a flat
array. On a CPU, where only tests draw a GPU's numbers, the accurate functions are close enough.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from undertow._src.arrays.device.placement import gpus
from undertow._src.base.sites import warn

Value = Any  # a JAX array
Plain = Callable[..., Value]

_BLOCK = 1024  # elements per Pallas block: a power of two
_REGISTERS = {"float32": "f", "float64": "d", "uint32": "r"}


def _instructions(code: str, plain: Plain) -> Plain:
    """Return a function of flat arrays that runs PTX on a GPU, and a JAX function elsewhere.

    `$0` in the code is the result, of the first argument's dtype; `$1` and so on are the arguments.
    """

    def call(*args: Value) -> Value:
        n = args[0].shape[0]
        args = tuple([jnp.broadcast_to(arg, (n,)) for arg in args])
        if not gpus() or not _has_instructions():
            return plain(*args)
        return jax.lax.platform_dependent(*args, cuda=_kernel(code, n), default=plain)

    return call


@cache
def _has_instructions() -> bool:
    """Whether this JAX can put PTX into a program."""
    try:
        from jax.experimental.pallas.triton import elementwise_inline_asm  # noqa: F401
    except ImportError:
        warn(
            "this version of JAX takes no PTX: normal and exponential numbers on cuda differ from PyTorch's in last bits"
        )
        return False
    return True


def _kernel(code: str, n: int) -> Plain:
    from jax.experimental import pallas
    from jax.experimental.pallas import triton

    def call(*args: Value) -> Value:
        dtype = args[0].dtype
        constraints = ",".join(["=" + _REGISTERS[dtype.name], *[_REGISTERS[arg.dtype.name] for arg in args]])

        def kernel(*refs: Any) -> None:
            *sources, target = refs
            (target[...],) = triton.elementwise_inline_asm(
                code, args=[source[...] for source in sources], constraints=constraints, pack=1,
                result_shape_dtypes=[jax.ShapeDtypeStruct((_BLOCK,), dtype)],
            )  # fmt: skip

        blocks = max(1, -(-n // _BLOCK))
        spec = pallas.BlockSpec((_BLOCK,), lambda block: (block,))
        run = pallas.pallas_call(
            kernel, out_shape=jax.ShapeDtypeStruct((blocks * _BLOCK,), dtype), grid=(blocks,),
            in_specs=[spec] * len(args), out_specs=spec, compiler_params=triton.CompilerParams(),
        )  # fmt: skip
        return run(*[jnp.pad(arg, (0, blocks * _BLOCK - n)) for arg in args])[:n]

    return call


def _fma(a: Value, b: Value, c: Value) -> Value:
    wide = jnp.float64
    return (a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(a.dtype)


def _word(value: np.float32) -> str:
    return f"0f{int(value.view(np.uint32)):08X}"


_TURN = np.float32(2 * np.pi * 2.0**-32)  # the angle of one step of a 32-bit word


def _angle(bits: Value) -> Value:
    return bits.astype(jnp.float32) * _TURN + _TURN / np.float32(2)


_LN_2, _LOG2_E = np.float32(0.6931471806), np.float32(1.4426950408889634)

# Box-Muller in float32: the logarithm of a uniform number, the word that gives the angle, and 1 for the cosine, 0 for the
# sine.
box_muller = _instructions(
    "{ .reg .f32 r, v, s, c; .reg .pred odd; mul.rn.f32 r, $1, 0fC0000000; sqrt.rn.f32 r, r; "
    f"cvt.rn.f32.u32 v, $2; fma.rn.f32 v, v, {_word(_TURN)}, {_word(_TURN / np.float32(2))}; "
    "sin.approx.f32 s, v; cos.approx.f32 c, v; setp.ne.u32 odd, $3, 0; selp.f32 v, c, s, odd; mul.rn.f32 $0, v, r; }",
    lambda log, bits, odd: jnp.where(odd != 0, jnp.cos(_angle(bits)), jnp.sin(_angle(bits))) * jnp.sqrt(-2 * log),
)
log = _instructions(f"{{ lg2.approx.f32 $0, $1; mul.rn.f32 $0, $0, {_word(_LN_2)}; }}", jnp.log)
exp = _instructions(f"{{ .reg .f32 v; mul.rn.f32 v, $1, {_word(_LOG2_E)}; ex2.approx.f32 $0, v; }}", jnp.exp)
tan = _instructions("{ .reg .f32 s, c; sin.approx.f32 s, $1; cos.approx.f32 c, $1; div.approx.f32 $0, s, c; }", jnp.tan)
_divide32 = _instructions("div.rn.f32 $0, $1, $2;", jnp.divide)
_fma32 = _instructions("fma.rn.f32 $0, $1, $2, $3;", _fma)
_fma64 = _instructions("fma.rn.f64 $0, $1, $2, $3;", _fma)


def divide(a: Value, b: Value) -> Value:
    """Return a quotient, exactly rounded."""
    return _divide32(a, b) if a.dtype == jnp.float32 else a / b


def fma(a: Value, b: Value, c: Value) -> Value:
    """Return `a * b + c`, rounded once."""
    return (_fma64 if a.dtype == jnp.float64 else _fma32)(a, b, c)
