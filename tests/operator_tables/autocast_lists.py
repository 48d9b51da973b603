"""Functions that autocast runs in another precision, each with arguments to call it with."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from undertow import amp
from undertow._src.tensor.core import TensorCore
from undertow._src.tensor.from_data import tensor
from undertow._src.types import dtypes
from undertow._src.types.dtypes import bfloat16, float32
from undertow.random import randn
from undertow.testing._internal.common_utils import TEST_WITH_ROCM as TEST_WITH_ROCM
from undertow.testing._internal.common_utils import TestCase

torch: Any = import_module("undertow")
Row = tuple[Any, ...]


class AutocastCPUTestLists:
    """Lists of (name, arguments[, arguments by name or the dtype of the result]), by what autocast does with them."""

    def __init__(self, dev: Any) -> None:
        def low(*shape: int) -> Any:
            return randn(shape, dtype=bfloat16, device=dev)

        def full(*shape: int) -> Any:
            return randn(shape, dtype=float32, device=dev)

        both = (full(8), low(8))
        # results follow from the usual promotion of dtypes
        self.torch_expect_builtin_promote: list[Row] = [
            *[(name, both, dtypes.bool) for name in ("eq", "ge", "gt", "le", "lt", "ne")],
            *[(name, both, float32) for name in ("add", "div", "mul")],
        ]
        self.methods_expect_builtin_promote: list[Row] = [
            *[(f"__{name}__", both, dtypes.bool) for name in ("eq", "ge", "gt", "le", "lt", "ne")],
            *[(f"__{name}__", both, float32) for name in ("add", "truediv", "mul")],
        ]
        matrices = full(8, 8), full(8, 8)
        batches = full(2, 8, 8), full(2, 8, 8)
        # these run in the low precision
        self.torch_16: list[Row] = [
            ("conv1d", (full(2, 4, 8), full(4, 4, 3))), ("conv2d", (full(2, 4, 8, 8), full(4, 4, 3, 3))),
            ("conv3d", (full(1, 2, 5, 5, 5), full(2, 2, 3, 3, 3))), ("bmm", batches), ("mm", matrices),
            ("matmul", matrices),
            ("baddbmm", (full(2, 8, 8), *batches)), ("addmm", (full(8, 8), *matrices)), ("addbmm", (full(8, 8), *batches)),
            ("conv_transpose1d", (full(2, 4, 8), full(4, 4, 3))),
            ("conv_transpose2d", (full(1, 4, 5, 5), full(4, 4, 3, 3))),
            ("conv_transpose3d", (full(1, 2, 4, 4, 4), full(2, 2, 2, 2, 2))),
        ]  # fmt: skip
        self.nn_16: list[Row] = [("linear", (*matrices, {}))]
        # these run in float32
        target = tensor([1, 0, 2, 1, 0, 1, 2, 0], device=dev)
        signs = randn(8, device=dev).sign()
        self.torch_fp32: list[Row] = [
            ("cosine_embedding_loss", (low(8, 3), low(8, 3), signs)), ("hinge_embedding_loss", (low(8), signs)),
            ("margin_ranking_loss", (low(8), low(8), signs)), ("triplet_margin_loss", (low(2, 3), low(2, 3), low(2, 3))),
            ("binary_cross_entropy_with_logits", (low(8), low(8).sigmoid())),
        ]  # fmt: skip
        self.nn_fp32: list[Row] = [
            ("nll_loss", (low(8, 3), target)), ("l1_loss", (low(8), low(8))), ("smooth_l1_loss", (low(8), low(8))),
            ("mse_loss", (low(8), low(8))), ("soft_margin_loss", (low(8), signs)), ("huber_loss", (low(8), low(8))),
        ]  # fmt: skip
        # these run in the widest dtype of their arguments
        self.torch_need_autocast_promote: list[Row] = [("cat", (both,)), ("stack", (both,))]


class TestAutocast(TestCase):
    """The base of tests of autocast."""

    def args_maybe_kwargs(self, op_with_args: Row) -> tuple[Any, Any, dict[str, Any]]:
        """Return a row without what it may leave out."""
        return (*op_with_args[:2], op_with_args[2] if len(op_with_args) > 2 else {})

    def _run_autocast_outofplace(
        self, op: str, args: Any, run_as_type: Any, device: Any, out_type: Any = None, module: Any = torch,
        add_kwargs: dict[str, Any] | None = None, amp_dtype: Any = bfloat16,
    ) -> None:  # fmt: skip
        """Whether a function, as a method and by itself, gives under autocast what it gives for arguments in a dtype."""

        def cast(value: Any) -> Any:
            if isinstance(value, TensorCore) and value.is_floating_point():
                return value.to(run_as_type)
            return type(value)(map(cast, value)) if isinstance(value, (list, tuple)) else value

        options = add_kwargs or {}
        self.assertFalse(torch.is_autocast_enabled("cpu"))
        with amp.autocast("cpu", dtype=amp_dtype):
            self.assertTrue(torch.is_autocast_enabled("cpu"))
            out_type = run_as_type if out_type is None else out_type
            homes = [home for home in (module, type(args[0])) if home is not None and hasattr(home, op)]
            self.assertTrue(homes, f"neither a module nor tensors have {op}")
            with amp.autocast("cpu", enabled=False):
                expected = getattr(homes[0], op)(*cast(args), **options)
            for result in [getattr(home, op)(*args, **options) for home in homes]:
                for each in result if isinstance(result, (list, tuple)) else [result]:
                    self.assertTrue(out_type == each.dtype, f"{op} gave {each.dtype}, not {out_type}")
                self.assertEqual(result, expected, exact_dtype=False)
        self.assertFalse(torch.is_autocast_enabled("cpu"))
