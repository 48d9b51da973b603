# Written by `make tables` from the modules themselves: do not edit.
from undertow.func import _derivatives as _derivatives, _jacobians as _jacobians, _modules as _modules, _rearrange as _rearrange, _vmap as _vmap
from undertow.func._modules import debug_unwrap as debug_unwrap, functionalize as functionalize, replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from undertow.nn.utils._functional_call import functional_call as functional_call, stack_module_state as stack_module_state
from undertow.func._derivatives import grad as grad, grad_and_value as grad_and_value, jvp as jvp, linearize as linearize, vjp as vjp
from undertow.func._jacobians import hessian as hessian, jacfwd as jacfwd, jacrev as jacrev
from undertow.func._rearrange import rearrange as rearrange
from undertow.func._vmap import vmap as vmap
__all__: list[str]
