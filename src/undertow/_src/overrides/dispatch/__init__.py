"""Dispatch below autograd: `TorchDispatchMode`, and classes with `__torch_dispatch__`.

Nothing here is loaded until the first mode is entered or the first such class is made. From then on `modes.slow_path` holds
a `Dispatcher`, and every place that runs a rule on its general path asks it first; while no mode is on, plain tensors
still take the fast path and ask nobody.

    schemas.py    the signatures of PyTorch's operators
    calls.py      a call of a rule as a call of one of them: which overload, which arguments
    offering.py   who is asked, in which order, and what runs when nobody takes over
    running.py    the Dispatcher: rules, writes and public functions that are offered
    backward.py   nodes and sums of gradients that are offered
    direct.py     public functions that are not made of rules; composites.py: rules that are several operators
    formulas.py   gradients in PyTorch's operators, where undertow's own take other steps; joint_formulas.py: of all inputs
    steps.py      the single steps they are made of
    kernels.py    what computes an operator; forward_kernels.py: those that no public function computes by its name
"""
