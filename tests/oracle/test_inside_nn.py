"""Names inside PyTorch's nn that packages and tests import: what they answer and how they refuse."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.oracle.harness import agree


def names(torch: Any) -> dict[str, Any]:
    def inside(name: str) -> Any:
        return importlib.import_module(f"{torch.__name__}.nn.{name}")

    class Empty(torch.nn.Module):
        pass

    tied = torch.nn.Linear(2, 2)
    tied.extra = tied.weight
    return {
        "torch": torch, "F": torch.nn.functional, "x": torch.arange(16.0).reshape(1, 1, 4, 4), "inside": inside,
        "ask": torch.arange(12.0).reshape(1, 3, 2, 2).requires_grad_(), "Empty": Empty, "tied": tied,
        "attention": inside("attention"), "q": torch.ones(1, 1, 2, 2),
    }  # fmt: skip


ANSWERS = """
F._max_pool2d(x, 2, return_indices=True), F._max_pool1d(x[0], 2), F._max_pool3d(x, 2)
F._adaptive_max_pool2d(x, 2), F._adaptive_max_pool1d(x[0], 2), F._fractional_max_pool2d(x, 2, output_size=2)
F._threshold(x, 3.0, 0.0), F._threshold(x.clone(), 3.0, 0.0, True)
F._check_key_padding_mask(torch.ones(2, 3), 3, 2)
F._check_key_padding_mask(torch.ones(2, 3), 4, 2)
F._check_key_padding_mask(torch.ones(2, 3), 3, 5)
F._is_integer(3), F._is_integer(3.0), F._is_integer(True), F._is_integer(torch.tensor(3))
F._list_or_empty(None), F._list_or_empty([1]), F._expand_single_value(None), F._expand_single_value(3)
[F._no_grad_embedding_renorm_(w, torch.tensor([0, 2]), 1.0, 2.0) or w for w in [torch.ones(3, 2) * 3]]
F._unpool_output_size(x, [2, 2], [2, 2], [0, 0], None), F._unpool_output_size(x, [2, 2], [2, 2], [0, 0], [1, 1, 8, 9])
F._unpool_output_size(x, [2, 2], [2, 2], [0, 0], [20, 9])
F._unpool_output_size(x, [2, 2], [2, 2], [0, 0], [8])
F._verify_spatial_size([1, 1, 1, 1])
F._verify_spatial_size([1, 1, 2, 1])
F.assert_int_or_pair([1], 'a', 'm {}')
F.assert_int_or_pair([1, 2], 'a', 'm {}'), F.assert_int_or_pair(3, 'a', 'm {}')
F.GRID_SAMPLE_INTERPOLATION_MODES, F.GRID_SAMPLE_PADDING_MODES
inside('modules.rnn')._apply_permutation(x[0, 0], torch.tensor([1, 0]))
inside('modules.rnn').apply_permutation(x[0, 0], torch.tensor([1, 0]), 0)
inside('modules.module')._forward_unimplemented(Empty(), 1)
torch.nn.Module.forward is inside('modules.module')._forward_unimplemented
inside('modules._functions').CrossMapLRN2d.apply(ask, 3)
inside('modules._functions').BackwardHookFunction.apply(ask, ask * 1)
torch.autograd.grad(sum(t.sum() for t in inside('modules._functions').BackwardHookFunction.apply(ask, ask * 1)), ask)
inside('parallel.comm').reduce_add([x, x])
inside('utils.rnn')._packed_sequence_init_args(x[0, 0], torch.tensor([2, 2]), torch.tensor([1, 0]))
inside('utils.rnn')._packed_sequence_init_args((x[0, 0], torch.tensor([2, 2])))
inside('utils.rnn').bind(None, abs), inside('utils.rnn').bind(-3, abs), inside('utils.rnn').PackedSequence_._fields
inside('utils.convert_parameters')._check_param_device(x, None)
inside('utils.convert_parameters')._check_param_device(x, -1)
inside('utils.convert_parameters')._check_param_device(x, 0)
inside('utils.stateless')._untie_named_tensors_map(tied, {'weight': torch.zeros(2, 2)})
inside('utils.stateless')._untie_named_tensors_map(tied, {'weight': torch.zeros(2, 2), 'extra': torch.ones(2, 2)})
inside('init')._make_deprecate(torch.nn.init.zeros_).__name__
inside('init')._make_deprecate(torch.nn.init.zeros_)(torch.ones(2))
[kernel.name for kernel in attention._cur_sdpa_kernel_backends()]
attention._backend_names, attention._backend_from_string('MATH').name, attention.WARN_FOR_UNFUSED_KERNELS
attention.can_use_flash_attention(attention.SDPAParams(q, q, q, None, 0.0, False, False))
attention.SDPAParams(q, q, q, None, 0.5, True, False).dropout
inside('attention._utils')._calculate_scale(4, None), inside('attention._utils')._calculate_scale(4, 0.3)
inside('attention._utils')._validate_sdpa_input(q, q[0, 0, 0], q)
inside('attention._utils')._validate_sdpa_input(q, q.double(), q)
inside('attention._utils')._input_requires_grad(q, ask), inside('attention._utils')._validate_sdpa_input(q, q, q)
""".strip().splitlines()


@pytest.mark.parametrize("text", ANSWERS)
def test_answers(text: str) -> None:
    agree(lambda torch: eval(text, names(torch)))


def test_kernels_by_the_older_manager() -> None:
    def program(torch: Any) -> Any:
        cuda = torch.backends.cuda
        asked = (cuda.flash_sdp_enabled, cuda.math_sdp_enabled, cuda.mem_efficient_sdp_enabled, cuda.cudnn_sdp_enabled)
        states = []
        with cuda.sdp_kernel(enable_flash=False, enable_mem_efficient=False) as given:
            states.append([ask() for ask in asked])
        with cuda.sdp_kernel(False, False, False, False):
            states.append([ask() for ask in asked])
        return given, states, [ask() for ask in asked]

    agree(program)


def test_the_order_of_kernels() -> None:
    def program(torch: Any) -> Any:
        attention = importlib.import_module(f"{torch.__name__}.nn.attention")
        math, flash = attention.SDPBackend.MATH, attention.SDPBackend.FLASH_ATTENTION
        usual = attention._cur_sdpa_kernel_backends(True)
        with attention.sdpa_kernel([math, flash], set_priority=True):
            inside = attention._cur_sdpa_kernel_backends(True)
            with attention.sdpa_kernel([attention.SDPBackend.EFFICIENT_ATTENTION, math]):
                within = attention._cur_sdpa_kernel_backends(True)
        with attention._sdpa_kernel_variadic(math):
            alone = attention._cur_sdpa_kernel_backends()
        return [[kernel.name for kernel in kernels] for kernels in (usual, inside, within, alone)]

    agree(program)
