"""`torch._functorch` and other homes of PyTorch's that packages import from have what `torch.func` has."""

from __future__ import annotations

import undertow
from undertow._functorch import apis, autograd_function, eager_transforms, vmap


def test_names_are_those_of_func() -> None:
    assert apis.grad is eager_transforms.grad is undertow.func.grad
    assert apis.vmap is vmap.vmap is undertow.func.vmap
    assert eager_transforms.jacrev is undertow.func.jacrev


def test_chunk_vmap() -> None:
    x = undertow.arange(10.0).reshape(5, 2)
    seen = []

    def total(row: undertow.Tensor) -> undertow.Tensor:
        seen.append(1)
        return row.sum()

    assert apis.chunk_vmap(total, chunks=3)(x).tolist() == x.sum(1).tolist()
    assert len(seen) == 3
    assert vmap.get_chunk_sizes(7, 3) == [3, 3, 1]


def test_reductify_sums_over_examples_of_an_input_without_them() -> None:
    gradient = undertow.ones(4, 3)
    assert autograd_function.reductify_leaf(gradient, 0, None, 4).tolist() == [4.0, 4.0, 4.0]
    assert autograd_function.reductify_leaf(gradient, None, 1, 2).shape == (4, 2, 3)
    assert autograd_function.reductify_leaf(undertow.ones(4, 2, 3), 0, 0, 4, (1, 3)).tolist() == [[[2.0] * 3]] * 4


def test_arguments_are_chosen_and_replaced() -> None:
    assert eager_transforms._slice_argnums((1, 2, 3), (0, -1)) == (1, 3)
    assert eager_transforms._replace_args((1, 2, 3), (9,), 1) == (1, 9, 3)


def test_tools_of_utils() -> None:
    tools = undertow._utils
    sparse = [undertow.eye(2).to_sparse(), undertow.ones(2, 3).to_sparse()]
    again = tools._unflatten_sparse_tensors(tools._flatten_sparse_tensors(sparse), sparse)
    assert all(undertow.equal(one.to_dense(), other.to_dense()) for one, other in zip(sparse, again, strict=True))
    called = tools.render_call(undertow.add, (undertow.ones(2, 3), [1, undertow.ones(2)]), {"alpha": 2})
    assert called == "torch.add(tensor([...], size=(2, 3)), [1, tensor([...], size=(2,))], alpha=2)"
    assert tools._import_dotted_name("json.decoder.JSONDecoder").__name__ == "JSONDecoder"
    assert tools.try_import("a_module_that_nobody_has") is None


def test_compiled_losses_take_numbers_for_reductions() -> None:
    one, other = undertow.tensor([1.0, 2.0]), undertow.tensor([3.0, 5.0])
    compiled = undertow._C._nn
    assert [compiled.l1_loss(one, other, how).tolist() for how in range(3)] == [[2.0, 3.0], 2.5, 5.0]
    assert compiled.gelu is undertow.nn.functional.gelu
    assert undertow._C._linalg.linalg_inv is undertow.linalg.inv
