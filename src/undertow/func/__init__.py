"""`torch.func`: derivatives and maps of functions, which compose."""

from undertow._src.base.lazy import homes_of, lazy_names

# vmap's tensors override functions, after which properties of all tensors ask before they answer.
__getattr__, __dir__ = lazy_names(__name__, homes_of(__name__, """
    _derivatives: grad grad_and_value jvp linearize vjp;
    _jacobians: hessian jacfwd jacrev;
    _modules: debug_unwrap functionalize replace_all_batch_norm_modules_; _vmap: vmap
""") | dict.fromkeys(["functional_call", "stack_module_state"], "undertow.nn.utils._functional_call"))  # fmt: skip
