"""`torch.func`: transforms of functions (derivatives and vmap), which compose."""

from undertow._src.base.lazy import homes_of, lazy_names

# Importing vmap's tensor class makes properties of all tensors check for overrides, which is slower.
__getattr__, __dir__ = lazy_names(__name__, homes_of(__name__, """
    _derivatives: grad grad_and_value jvp linearize vjp;
    _jacobians: hessian jacfwd jacrev;
    _modules: debug_unwrap functionalize replace_all_batch_norm_modules_; _rearrange: rearrange;
    _vmap: vmap
""") | dict.fromkeys(["functional_call", "stack_module_state"], "undertow.nn.utils._functional_call"))  # fmt: skip
