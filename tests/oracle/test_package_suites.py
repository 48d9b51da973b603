"""What the test suites of packages written for PyTorch asked for, and undertow once answered otherwise."""

from __future__ import annotations

import copy
import io
import pickle
from collections import OrderedDict, defaultdict, namedtuple
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import undertow
import undertow.nn.utils._per_sample_grad
from tests.oracle.facts import opening
from tests.oracle.harness import agree


def test_values_of_array_subclasses_are_copied_plain(tmp_path: Any) -> None:
    def program(torch: ModuleType) -> Any:
        mapped = np.memmap(tmp_path / torch.__name__, "float32", "w+", shape=(4,))
        tensors = torch.tensor(mapped), torch.tensor(np.matrix([[1.0, 2.0], [3.0, 4.0]])), torch.as_tensor(mapped)
        return [(t * t, t.untyped_storage().nbytes(), type(t.numpy()).__name__) for t in tensors]

    agree(program)


def test_deepcopy_asks_the_tensor_only() -> None:
    def program(torch: ModuleType) -> Any:
        class Operator:
            @classmethod
            def __torch_function__(cls, *args: Any) -> Any:
                raise AssertionError("what was copied before is not an argument")

        return copy.deepcopy([Operator(), torch.ones(2)])[1]

    agree(program)


def test_modules_move_to_the_meta_device_and_back() -> None:
    def program(torch: ModuleType) -> Any:
        model = torch.nn.Linear(2, 2)
        weight, state = model.weight, {name: value.clone() for name, value in model.state_dict().items()}
        model.to("meta")
        facts = [model.weight is weight, str(weight.device), str(model.weight.device), model.weight.requires_grad]
        storage = model.weight.untyped_storage()
        facts += [storage.data_ptr(), storage.nbytes(), str(storage.device), repr(storage)]
        model.load_state_dict(state, assign=True)
        facts.append([str(parameter.device) for parameter in model.parameters()])
        model.to("meta").to_empty(device="cpu")
        model.load_state_dict(state)
        return facts, model(torch.ones(1, 2)).detach().sum(), repr(model.weight.data.shape)

    agree(program)


@pytest.mark.parametrize("mine, given", [("cpu", "meta"), ("meta", "cpu")])
def test_data_of_another_kind_is_refused(mine: str, given: str) -> None:
    def program(torch: ModuleType) -> Any:
        torch.ones(2, device=mine).data = torch.ones(2, device=given)

    agree(program)


def test_a_compiled_module_hands_its_attributes_on() -> None:
    def program(torch: ModuleType) -> Any:
        model = torch.nn.Sequential(torch.nn.Linear(2, 2))
        compiled = torch.compile(model, backend="eager")
        compiled.answer = 42
        compiled.eval()
        classes = __import__(f"{torch.__name__}._dynamo.eval_frame", fromlist=["OptimizedModule"])
        loaded = pickle.loads(pickle.dumps(compiled))
        return (
            type(loaded).__name__, len(loaded), loaded.training, torch.equal(loaded._orig_mod[0].weight, model[0].weight),
            isinstance(compiled, classes.OptimizedModule), type(compiled).__name__, repr(compiled), model.answer,
            model.training, compiled.training, [name for name, _ in compiled.named_modules()], list(compiled.state_dict()),
            "answer" in dir(compiled),
        )  # fmt: skip

    agree(program)


def test_state_dicts_by_the_names_of_the_model() -> None:
    def program(torch: ModuleType) -> Any:
        named = __import__(f"{torch.__name__}.distributed.checkpoint.state_dict", fromlist=["StateDictOptions"])

        def trained() -> Any:
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
            optimizer = torch.optim.Adam(
                [{"params": model[1].parameters(), "lr": 0.1}, {"params": model[0].parameters()}]
            )
            return model, optimizer

        model, optimizer = trained()
        fresh = named.get_optimizer_state_dict(model, optimizer)
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        weights, state = named.get_state_dict(model, optimizer)
        flat_options = named.StateDictOptions(flatten_optimizer_state_dict=True, cpu_offload=True)
        flat = named.get_optimizer_state_dict(model, optimizer, options=flat_options)
        results = [fresh, weights, state, flat, repr(flat_options)]
        for options, given in ((None, state), (flat_options, flat)):
            other, second = trained()
            named.set_state_dict(other, second, model_state_dict=weights, optim_state_dict=given, options=options)
            other(torch.ones(1, 2)).sum().backward()
            second.step()
            results.append([parameter.detach() for parameter in other.parameters()])
        inside = named.StateDictOptions(keep_submodule_prefixes=False)
        results.append(list(named.get_model_state_dict(model, submodules={model[1]}, options=inside)))
        results.append(list(named.get_model_state_dict(torch.nn.Sequential(torch.compile(model, backend="eager")))))
        full = named.StateDictOptions(full_state_dict=True)
        half_empty, _ = trained()
        half_empty[1].to("meta")
        given = {"1.weight": torch.ones(1, 3)}
        results.append(repr(named.set_model_state_dict(half_empty, given, options=full)))
        results.append([str(parameter.device) for parameter in half_empty.parameters()])
        loose = named.StateDictOptions(strict=False)
        results.append(repr(named.set_model_state_dict(model, {model[0]: {"weight": torch.ones(3, 2)}}, options=loose)))
        del state["state"]["0.bias"]
        try:
            named.set_optimizer_state_dict(model, optimizer, state)
        except RuntimeError as error:
            results.append(opening(str(error), words=20))
        return results

    agree(program)


ONE_ELEMENT = (
    """
torch.zeros(n); torch.rand(n, 3); torch.ones((3, n)); torch.zeros(n.view(1, 1), 3); torch.ones(6).view(3, n)
torch.ones(6).view(n, 3); torch.ones(6).reshape((n, 3)); torch.ones(3).expand(n, 3); torch.ones(3).repeat(n, 1)
torch.ones(2, 3).sum((0, n - 1)); torch.full((n, 3), 1.0); torch.randint(5, (3, n)); torch.ones(3, 2).permute(n - 1, 0)
torch.ones(2, 3).new_zeros(n, 3); torch.ones(4).split((n, n)); torch.ones(6).unflatten(0, (n, 3)); torch.zeros(3, n + 0.5)
torch.ones(2, 3).unsqueeze(n - 1); torch.zeros(torch.tensor([2, 3])); torch.ones(2, 3).sum((0, torch.tensor([0, 1])))
""".strip()
    .replace("\n", "; ")
    .split("; ")
)


@pytest.mark.parametrize("text", ONE_ELEMENT)
def test_whole_tensors_of_one_element_among_sizes(text: str) -> None:
    def program(torch: ModuleType) -> Any:
        torch.manual_seed(0)
        return eval(text, {"torch": torch, "n": torch.tensor([2])})

    agree(program, words=3)


@pytest.mark.parametrize(
    "text", ["none // 0", "none % zero", "none.fmod(zero)", "torch.div(none, zero, rounding_mode='trunc')"]
)
def test_nothing_can_be_divided_by_zero(text: str) -> None:
    def program(torch: ModuleType) -> Any:
        return eval(text, {"torch": torch, "none": torch.zeros(0, 3, dtype=torch.int64), "zero": torch.tensor(0)})

    agree(program)


def test_private_names_that_packages_take() -> None:
    def program(torch: ModuleType) -> Any:
        trees = __import__(f"{torch.__name__}.utils._pytree", fromlist=["tree_map"])
        pair = namedtuple("pair", "a b")
        return (
            trees._namedtuple_flatten(pair(1, 2)), trees._namedtuple_unflatten([3, 4], pair),
            trees._defaultdict_flatten(defaultdict(int, a=1)), trees._deque_unflatten([1], 3),
            trees._ordereddict_flatten(OrderedDict(a=1)), torch._C._mps_is_available(), torch.cuda._is_in_bad_fork(),
        )  # fmt: skip

    agree(program)


EIGHT_BITS = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]


@pytest.mark.parametrize("name", EIGHT_BITS)
def test_numbers_of_eight_bits_are_converted_moved_and_saved(name: str) -> None:
    def program(torch: ModuleType) -> Any:
        kind, inf = getattr(torch, name), torch.inf
        numbers = torch.tensor([0.0, 1.0, -1.5, 0.3, 19.0, 250.0, 448.0, 500.0, 6e4, 1e5, -1e6, inf, -inf, 1e-3, 1e-9])
        small = numbers[:4].to(kind)
        file = io.BytesIO()
        torch.save(small, file)
        file.seek(0)
        wide = torch.ones(2, requires_grad=True)
        wide.to(kind).float().sum().backward()
        return (
            numbers.to(kind).float(), numbers.double().to(kind).double(), numbers.half().to(kind).bfloat16(), repr(small),
            small.view(torch.uint8), small.view(2, 2).t().contiguous().float(), torch.cat([small, small[1:]]).float(),
            torch.full((2,), 1.5, dtype=kind).tolist(), torch.load(file).float(), wide.grad, small.element_size(),
            small == small, small.clone().fill_(2)[0].item(), torch.zeros_like(small).float(), repr(torch.finfo(kind)),
        )  # fmt: skip

    agree(program)


@pytest.mark.parametrize("use", ["numpy()", "add(torch.ones(2))"])
def test_what_eight_bits_refuse(use: str) -> None:
    for name in EIGHT_BITS:
        agree(lambda torch, name=name: eval(f"torch.ones(2).to(torch.{name}).{use}", {"torch": torch}))


PER_SAMPLE = (
    """
Linear(3, 2)(12.0).view(4, 3); Linear(3, 2)(24.0).view(4, 2, 3); LayerNorm(3)(12.0).view(4, 3)
Conv2d(1, 2, 3)(32.0).view(2, 1, 4, 4); Conv1d(2, 4, 3, padding="same", groups=2)(32.0).view(2, 2, 8)
GroupNorm(2, 4)(40.0).view(2, 4, 5); InstanceNorm1d(4, affine=True)(40.0).view(2, 4, 5); Embedding(5, 2)(4).view(2, 2)
BatchNorm1d(3)(12.0).view(4, 3); Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))(12.0).view(4, 3)
""".strip()
    .replace("\n", "; ")
    .split("; ")
)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("text", PER_SAMPLE)
def test_gradients_of_every_example(text: str, reduction: str) -> None:
    def program(torch: ModuleType) -> Any:
        call = __import__(f"{torch.__name__}.nn.utils._per_sample_grad", fromlist=["call_for_per_sample_grads"])
        torch.manual_seed(0)
        layer, given = text.rsplit(")(", 1)
        model = eval(f"nn.{layer})", {"nn": torch.nn})
        x = eval(f"torch.arange({given}", {"torch": torch})
        x = (x.sin() if x.is_floating_point() else x).requires_grad_(x.is_floating_point())
        result = call.call_for_per_sample_grads(model, loss_reduction=reduction)(x)
        (result**2).sum().backward()
        return result.detach(), x.grad, [(p.grad_sample, p.grad) for p in model.parameters()]

    agree(program, rtol=1e-4, atol=1e-4)


def test_recurrent_layers_have_no_gradients_of_every_example() -> None:
    call = undertow.nn.utils._per_sample_grad.call_for_per_sample_grads
    with pytest.raises(RuntimeError, match="cannot handle function lstm"):
        call(undertow.nn.LSTM(2, 3))(undertow.ones(2, 3, 2))


def test_the_way_back_from_the_meta_device_is_kept_and_refused() -> None:
    def program(torch: ModuleType) -> Any:
        x = torch.ones(2, requires_grad=True)
        y, empty = x.clone().to("meta"), torch.ones(2, device="meta", requires_grad=True)
        with torch.no_grad():
            hidden = x.to("meta")
        facts = [y.grad_fn.name(), y.grad_fn.next_functions[0][0].name(), y.is_meta, hidden.requires_grad]
        facts += [(y * 2).grad_fn.name(), empty.double().grad_fn.name(), empty.to(torch.float64).grad_fn.name()]
        print(facts)
        y.sum().backward()

    agree(program, raises=True)


def test_equal_numbers_have_no_spread() -> None:
    def program(torch: ModuleType) -> Any:
        torch.manual_seed(0)
        same = torch.stack([torch.randn(3, 5)] * 5)
        return [(f(same, 0) == 0).all().item() for f in (torch.std, torch.var)] + [
            torch.var_mean(same, 0)[0].sum().item()
        ]

    agree(program)
