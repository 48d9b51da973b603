"""Why a gradient is missing or zero, why a hook did not fire, what freed the graph: observed on undertow or PyTorch."""

from undertow.why.compiled_steps import compiled as compiled
from undertow.why.debug.debugger import debug as debug  # the function takes precedence over the package of that name
from undertow.why.gradient_flow import flow as flow
from undertow.why.graph_memory import memory as memory
from undertow.why.hook_list import hooks as hooks
from undertow.why.integrations.callbacks import lightning_callback as lightning_callback
from undertow.why.integrations.callbacks import transformers_callback as transformers_callback
from undertow.why.integrations.notebook import (
    load_ipython_extension as load_ipython_extension,
)  # for `%load_ext undertow.why`
from undertow.why.ledgers import ledger as ledger
from undertow.why.questions import grad as grad
from undertow.why.questions import hook as hook
from undertow.why.scopes import scope as scope
from undertow.why.session import watch as watch  # the function takes precedence over the package of that name
