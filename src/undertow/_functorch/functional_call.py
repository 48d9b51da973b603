"""`torch._functorch.functional_call`: calling a module with other tensors."""

from undertow.nn.utils._functional_call import construct_stacked_leaf as construct_stacked_leaf
from undertow.nn.utils._functional_call import functional_call as functional_call
from undertow.nn.utils._functional_call import stack_module_state as stack_module_state
