"""Show pack hooks the inputs of an op that fails: PyTorch saves inputs first and checks most of them in the kernel.

undertow checks arguments before it records anything. So where an op raises inside a `saved_tensors_hooks` block, the
hooks are called with what PyTorch's node would already have saved. `apply` does that for errors raised by a rule
(`pack_in_vain`); for errors raised before the rule runs, SAVES tells what to save: its entry for the innermost function of
the traceback that it lists. An op that succeeds pays nothing for this.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from undertow._src.base.modes import local, slow_path
from undertow._src.engine.saved import Packed
from undertow._src.tensor.core import TensorCore

# For each function: the variables it saves, in order; after a colon, whose gradients need them (default: their own).
SAVES = {
    "matrix_product": "mat2:input input:mat2",
    "stack_product": "mat2:input input:mat2",
    "mv": "vec:input input:vec",
    "dot": "tensor:input input:tensor",
    "vdot": "other:input input:other",
    "check_addmm": "mat1:mat2 mat2:mat1",
    "_checked_addmv": "mat:vec vec:mat",
    "_checked_baddbmm": "batch1:batch2 batch2:batch1",
    "_checked_addr": "vec1:vec2 vec2:vec1",
    "gather": "index:input input",
    "index_select": "index:input",
    "scatter": "index:input,src",
    "scatter_add": "index:input,src",
    "scatter_add_": "index:self,src",
    "scatter_": "index:self,src",
    "scatter_reduce": "index:input,src input:input,src src:input,src",
    "index_add": "index:input,source source",
    "index_add_": "index:self,source source",
    "index_copy": "index:input,source source",
    "index_copy_": "index:self,source source",
    "index_fill": "index:input",
    "index_fill_": "index:self",
    "index_reduce": "index:input,source input:input,source source:input,source",
    "take": "index:input input",
    "put": "index:input,source",
    "masked_fill": "mask:input,value",
    "masked_fill_": "mask:self,value",
    "masked_select": "mask:input input",
    "masked_scatter": "mask:input,source",
    "masked_scatter_": "mask:self,source",
    "logsumexp": "input",
    "cumprod": "input",
    "prod": "input",
    "_spread": "input",
    "norm": "input",
    "_fold_extreme": "input",
    "logcumsumexp": "input",
    "cummax": "input",
    "cummin": "input",
    "renorm": "input",
    "convolved": "input:input,weight weight:input,weight",
    "torch_embedding": "indices:weight",
    "embedding_bag": "input:weight offsets:weight",
    "_nll": "input target:input",
    "multi_margin_loss": "input target:input",
    "multilabel_margin_loss": "input target:input",
    "ctc_loss": "log_probs targets:log_probs",
    "layer_norm": "input:input,weight weight:input",
    "glu": "input",
    "_max_pool": "input",
    "_avg_pool": "input",
    "_adaptive_avg_pool": "input",
    "grid_sample": "grid:input,grid input:input,grid",
    "_by_index": "input",
    "cross": "other:input input:other",
    "_det": "A",
    "_slogdet": "A",
    "_solve": "A:A,B",
    "linalg_matrix_exp": "input",
    "linalg_solve_triangular": "input:input,B",
    "linalg_pinv": "input",
    "linalg_householder_product": "input:input,tau tau:input,tau",
    "linalg_lstsq": "b:input,b input:input,b",
    "_cholesky": "A",
    "cholesky_solve": "input:input,input2 input2:input,input2",
    "triangular_solve": "input:input,A A:input,A",
    "segment_reduce": "data lengths:data",
    "ormqr": "input:input,input2,input3 input2:input,input2,input3 input3:input,input2,input3",
    "_cdist": "x1:x1,x2 x2:x1,x2",
    "fractional_max_pool2d": "input",
    "_max_unpool": "indices:input",
}


def show_saved(error: Exception) -> None:
    """Call the pack hook with what the failed op would have saved, unless that was done, or a hook raised the error."""
    modes = local.modes
    if (
        not modes.grad_enabled
        or modes.inference
        or slow_path.duals is not None
        or modes.saved_hooks_disabled is not None
    ):
        return
    if modes.pushing is not None or getattr(error, "_saved_shown", False):
        return
    found = _failed(error.__traceback__)
    if found is None:
        return
    spec, variables = found
    mark_shown(error)
    pack, unpack, _ = modes.saved_hooks[-1]
    for part in spec.split():
        name, _, readers = part.partition(":")
        saved = variables.get(name)
        wanted = any(getattr(variables.get(reader), "requires_grad", False) for reader in (readers or name).split(","))
        if wanted and isinstance(saved, TensorCore):
            Packed(saved, saved, pack, unpack)


def mark_shown(error: Exception) -> None:
    """Mark an error as shown to pack hooks: it passes through several public functions."""
    error._saved_shown = True  # type: ignore[attr-defined]


def _failed(trace: TracebackType | None) -> tuple[str, dict[str, Any]] | None:
    """Return the SAVES entry and variables of the innermost function listed there; None if a hook raised the error."""
    found = None
    while trace is not None:
        frame = trace.tb_frame
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("undertow.", "numpy.")) or ".utils." in name:
            found = None  # the program's own hook, or checkpoint's
        elif frame.f_code.co_name in SAVES:
            found = SAVES[frame.f_code.co_name], frame.f_locals
        trace = trace.tb_next
    return found
