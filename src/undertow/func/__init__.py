"""Functions of functions: `torch.func`."""

from undertow.nn.utils._functional_call import functional_call as functional_call
from undertow.nn.utils._functional_call import stack_module_state as stack_module_state
