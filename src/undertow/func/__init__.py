"""`torch.func`: derivatives and maps of functions, which compose."""

from typing import TYPE_CHECKING

from undertow._src.base.lazy import homes_of, lazy_names

if TYPE_CHECKING:
    from undertow.func._derivatives import grad as grad
    from undertow.func._derivatives import grad_and_value as grad_and_value
    from undertow.func._derivatives import jvp as jvp
    from undertow.func._derivatives import linearize as linearize
    from undertow.func._derivatives import vjp as vjp
    from undertow.func._jacobians import hessian as hessian
    from undertow.func._jacobians import jacfwd as jacfwd
    from undertow.func._jacobians import jacrev as jacrev
    from undertow.func._modules import debug_unwrap as debug_unwrap
    from undertow.func._modules import functionalize as functionalize
    from undertow.func._modules import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
    from undertow.func._vmap import vmap as vmap
    from undertow.nn.utils._functional_call import functional_call as functional_call
    from undertow.nn.utils._functional_call import stack_module_state as stack_module_state

# vmap's tensors override functions, after which properties of all tensors ask before they answer.
__getattr__, __dir__ = lazy_names(__name__, homes_of(__name__, """
    _derivatives: grad grad_and_value jvp linearize vjp;
    _jacobians: hessian jacfwd jacrev;
    _modules: debug_unwrap functionalize replace_all_batch_norm_modules_; _vmap: vmap
""") | dict.fromkeys(["functional_call", "stack_module_state"], "undertow.nn.utils._functional_call"))  # fmt: skip

__all__ = [
    "debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "linearize", "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip
