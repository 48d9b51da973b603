"""Dispatch below autograd: `TorchDispatchMode`, and classes with `__torch_dispatch__`.

Nothing here is loaded until the first mode is entered or the first such class is defined. From then on
`modes.slow_path` holds a `Dispatcher`, and every place that runs a rule on its general path calls it first; while no
mode is on, plain tensors still take the fast path without dispatch.

schemas.py    the signatures of PyTorch's operators
    calls.py      a call of a rule as a call of an operator: which overload, which arguments
    offering.py   which overrides are called, in which order, and what runs if none applies
    running.py    the Dispatcher: dispatch of rules, writes and public functions
    backward.py   dispatch of nodes and of sums of gradients
    direct.py     public functions that are not made of rules; composites.py: rules that are several operators
    formulas.py   gradients in PyTorch's operators, where undertow's own differ; joint_formulas.py: of all inputs
    steps.py      the single steps they are made of
    kernels.py    the functions that compute operators; forward_kernels.py: those without a public function of that name
"""
