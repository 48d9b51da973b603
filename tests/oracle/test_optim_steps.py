"""Each optimizer, with each of its options, takes the steps that PyTorch takes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tests.oracle.facts import to_tensor
from tests.oracle.harness import agree
from tests.oracle.optim_cases import CASES, MUON_CASES, ONE_OF_EACH, Case, Training, case_name, result


def train(case: Case, steps: int = 100, **options: Any) -> Any:
    def program(torch: Any) -> Any:
        name, arguments = case
        training = Training(torch, **options)
        optimizer = getattr(torch.optim, name)(training.params, **arguments)
        training.run(optimizer, steps)
        return result(training, optimizer)

    return program


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_a_hundred_steps(case):
    agree(train(case), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_a_hundred_steps_in_double(case):
    agree(train(case, dtype="float64"), rtol=1e-7 if case[0] in ("ASGD", "NAdam") else 1e-11, atol=1e-10)


@pytest.mark.parametrize("case", MUON_CASES, ids=case_name)
@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (4, 4)])
def test_muon(case, shape):
    agree(train(case, steps=10, shapes=[shape]), rtol=2e-2, atol=2e-3)  # the update itself is computed in bfloat16


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("case", ONE_OF_EACH, ids=case_name)
def test_half_precision(case, dtype):
    tolerance = 0.05 if dtype == "bfloat16" else 0.01
    agree(train(case, steps=5, dtype=dtype, shapes=[(4, 3), (3,)]), rtol=tolerance, atol=tolerance)


def test_nothing_to_update():
    agree(train(("Adam", {}), steps=2, shapes=[(0,), (2, 0)]))


@pytest.mark.parametrize("case", [case for case in ONE_OF_EACH if case[0] != "Adafactor"], ids=case_name)
def test_complex_parameters(case):
    agree(train(case, steps=20, dtype="complex64", shapes=[(4, 3), ()]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=case_name)
def test_many_blocks(case):
    """More elements than fit into one block, and not a whole number of blocks."""
    agree(train(case, steps=3, shapes=[(300, 701)]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=case_name)
def test_memory_in_another_order(case):
    def program(torch):
        name, arguments = case
        random = np.random.RandomState(0)
        base = to_tensor(torch, random.randn(6, 8).astype("float32"))
        wide = to_tensor(torch, random.randn(4, 10).astype("float32"))
        params = [base.t().requires_grad_(), wide[:, ::2].requires_grad_()]
        optimizer = getattr(torch.optim, name)(params, **arguments)
        for _ in range(5):
            for param in params:
                grad = to_tensor(torch, random.randn(*reversed(param.shape)).astype("float32")).t()
                param.grad = grad
            optimizer.step()
        return base, wide, params, [grad.is_contiguous() for grad in (params[0].grad, params[1].grad)]

    agree(program, rtol=1e-5, atol=1e-6)


def test_gradients_are_left_alone():
    def program(torch):
        for name, arguments in ONE_OF_EACH:
            training = Training(torch, shapes=[(4, 3)])
            optimizer = getattr(torch.optim, name)(training.params, **arguments)
            training.give_gradients()
            before = training.params[0].grad.clone()
            optimizer.step()
            assert torch.equal(before, training.params[0].grad), name

    agree(program)


def test_parameters_without_gradients_are_left_alone():
    def program(torch):
        found = []
        for name, arguments in ONE_OF_EACH:
            training = Training(torch, shapes=[(4, 3), (3,)])
            optimizer = getattr(torch.optim, name)(training.params, **arguments)
            training.give_gradients()
            training.params[0].grad = None
            optimizer.step()
            found.append(result(training, optimizer))
        return found

    agree(program, rtol=1e-5, atol=1e-6)


def test_groups_have_options_of_their_own():
    def program(torch, log):
        training = Training(torch)
        a, b, c, d = training.params
        optimizer = torch.optim.Adam(
            [{"params": [a, b], "lr": 0.1, "weight_decay": 0.5}, {"params": c, "betas": (0.5, 0.6), "amsgrad": True}],
            lr=0.01,
        )
        optimizer.add_param_group({"params": [d], "maximize": True})
        training.run(optimizer, 10)
        optimizer.param_groups[0]["lr"] = 0.5
        training.run(optimizer, 10)
        log(repr(optimizer))
        return result(training, optimizer)

    agree(program, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", [*ONE_OF_EACH, ("SGD", {"lr": 0.1})], ids=case_name)
def test_learning_rate_in_a_tensor(case):
    def program(torch):
        name, arguments = case
        training = Training(torch)
        rate = torch.tensor(0.02)
        optimizer = getattr(torch.optim, name)(training.params, **{**arguments, "lr": rate})
        training.run(optimizer, 5)
        rate.fill_(0.01)
        training.run(optimizer, 5)
        return result(training, optimizer)

    agree(program, rtol=1e-5, atol=1e-6)


def test_betas_in_tensors():
    def program(torch):
        training = Training(torch)
        betas = (torch.tensor(0.8), torch.tensor(0.9))
        optimizer = torch.optim.Adam(training.params, betas=betas)
        training.run(optimizer, 5)
        return result(training, optimizer)[0]

    agree(program, rtol=1e-4, atol=1e-5)


def test_closure_is_called_with_gradients_enabled():
    def program(torch, log):
        for name, arguments in [*ONE_OF_EACH, ("Muon", {})]:
            w = torch.ones(2, 2, requires_grad=True)
            optimizer = getattr(torch.optim, name)([w], **arguments)

            def closure():
                optimizer.zero_grad()
                loss = (w * w).sum()
                log(name, torch.is_grad_enabled())
                loss.backward()
                return loss

            with torch.no_grad():
                log(optimizer.step(closure))
        return w

    agree(program, rtol=2e-2)


def test_steps_count_as_writes():
    """A graph made before a step cannot be used after it; a parameter without a gradient was not written to."""

    def program(torch, log):
        for name, arguments in ONE_OF_EACH:
            w, quiet = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
            loss = (w * w * quiet).sum()
            optimizer = getattr(torch.optim, name)([w, quiet], **arguments)
            w.grad = torch.ones(2)
            optimizer.step()
            log(name, w._version > 0, quiet._version > 0)
            try:
                loss.backward()
            except RuntimeError as error:
                log(error)

    agree(program)


def test_a_step_under_allowed_mutation():
    """Inside the context a graph made before a step is differentiated with the values from before it."""

    def program(torch, log):
        for name, arguments in ONE_OF_EACH:
            w = torch.ones(2, requires_grad=True)
            w.grad = torch.ones(2)
            optimizer = getattr(torch.optim, name)([w], **arguments)
            with torch.autograd.graph.allow_mutation_on_saved_tensors():
                loss = (w * w).sum()
                optimizer.step()
                log(name, torch.autograd.grad(loss, w))

    agree(program)


def test_optimizers_in_several_threads():
    """Scratch memory belongs to a thread."""

    def program(torch):
        def work(seed):
            training = Training(torch, shapes=[(200, 300)], seed=seed)
            optimizer = torch.optim.Adam(training.params)
            training.run(optimizer, 10)
            return training.params[0].detach()

        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(work, range(4)))

    agree(program, rtol=1e-4, atol=1e-5)


def test_zero_grad():
    def program(torch, log):
        w, b = torch.ones(2, requires_grad=True), torch.ones(1, requires_grad=True)
        optimizer = torch.optim.SGD([w, b], lr=0.1)
        (w * b).sum().backward()
        kept = w.grad
        optimizer.zero_grad(set_to_none=False)
        log(w.grad, w.grad is kept, b.grad)
        grad = torch.autograd.grad((w * w * b).sum(), w, create_graph=True)[0]
        w.grad = grad
        optimizer.zero_grad(set_to_none=False)
        log(w.grad, w.grad.requires_grad, w.grad.grad_fn is None)
        optimizer.zero_grad()
        log(w.grad, b.grad)
        optimizer.zero_grad(set_to_none=False)
        log(w.grad)

    agree(program)


def test_training_agrees():
    """Gradients from backward, so that rounding feeds back on itself."""

    def program(torch, log):
        random = np.random.RandomState(0)
        x = to_tensor(torch, random.randn(32, 6).astype("float32"))
        y = to_tensor(torch, random.randn(32, 2).astype("float32"))
        for name, arguments in ONE_OF_EACH:
            w1 = to_tensor(torch, random.randn(6, 8).astype("float32") * 0.4, True)
            b1 = torch.zeros(8, requires_grad=True)
            w2 = to_tensor(torch, random.randn(8, 2).astype("float32") * 0.4, True)
            optimizer = getattr(torch.optim, name)([w1, b1, w2], **arguments)
            for number in range(50):
                optimizer.zero_grad()
                loss = ((((x @ w1 + b1).tanh() @ w2) - y) ** 2).mean()
                loss.backward()
                optimizer.step()
                if number % 10 == 9:
                    log(name, loss)

    agree(program, rtol=1e-4, atol=1e-5)


def test_infinite_and_missing_numbers_pass_in_silence():
    def program(torch, log):
        for name, arguments in ONE_OF_EACH:
            w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
            optimizer = getattr(torch.optim, name)([w], **arguments)
            w.grad = torch.tensor([float("nan"), float("inf"), 0.0])
            optimizer.step()
            log(name, w.isnan())

    agree(program)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["SGD", "Adamax", "RAdam", "Rprop", "ASGD"])
def test_half_precision_is_rounded_where_pytorch_rounds(name, dtype):
    """Each op of a step rounds, so that the order of the ops shows."""

    def program(torch, log):
        param = torch.nn.Parameter(torch.randn(64).to(getattr(torch, dtype)))
        optimizer = getattr(torch.optim, name)([param], lr=0.01)
        for _ in range(8):
            param.grad = torch.randn(64).to(param.dtype)
            optimizer.step()
            log(param)

    agree(program, rtol=0, atol=0)
