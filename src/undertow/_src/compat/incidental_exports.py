"""Names that a module of PyTorch's has only because it imports them, and that packages import from there.

`from torch.optim.lr_scheduler import Optimizer` and `torch.nn.modules.conv.torch` are accidents that became habits.
While undertow stands in for torch, a name that a module lacks is looked up here: almost every module of PyTorch's has
`torch` and `Tensor`, and those of one area import from the same few modules.
"""

from __future__ import annotations

import importlib
from typing import Any

from undertow._src.base.lazy import present

EVERYWHERE = {"torch": "undertow", "Tensor": "undertow:Tensor"}

# By area, longest first: where its modules import from.
NEIGHBOURS = {
    "torch.nn.functional": "overrides _jit_internal nn.modules.utils",
    "torch.nn.modules": "nn.modules.utils nn.parameter nn.init nn.modules.linear nn.modules.module utils.hooks "
    "utils._python_dispatch",
    "torch.nn.parallel": "_utils nn.parallel nn.parallel.scatter_gather nn.modules.module autograd utils._pytree",
    "torch.nn.utils": "utils._foreach_utils utils._python_dispatch nn.utils._named_member_accessor __future__",
    "torch.optim": "optim.optimizer utils._foreach_utils",
    "torch.distributions": "distributions.utils distributions nn.functional overrides",
    "torch.utils.data": "_utils utils.data.dataset utils.data.datapipes.datapipe random",
    "torch.utils": "utils._pytree utils._contextlib utils._python_dispatch autograd.grad_mode",
    "torch.autograd.functional": "_vmap_internals autograd overrides",
    "torch.autograd": "autograd overrides utils._contextlib utils._python_dispatch _C._autograd",
    "torch.cuda": "_utils cuda._utils cuda.memory cuda",
    "torch._tensor": "overrides",
    "torch.functional": "_jit_internal",
    "torch.serialization": "_utils types",
    "torch.testing": "testing._internal.common_utils testing._internal.common_device_type testing._internal.common_dtype "
    "testing._internal.common_cuda testing._internal.opinfo.core testing._creation utils._pytree",
    "torch.profiler": "_C._autograd _C._profiler optim.optimizer",
}

# Aliases of modules, and names from outside the area.
NICKNAMES = {
    "F": "undertow.nn.functional",
    "_C": "undertow._C",
    "_VF": "undertow._VF",
    "_Reduction": "undertow.nn._reduction",
    "constraints": "undertow.distributions.constraints",
    "device": "undertow:device",
    "dist": "undertow.distributed",
    "dtype": "undertow:dtype",
    "inf": "undertow:inf",
    "init": "undertow.nn.init",
    "pytree": "undertow.utils._pytree",
}


def from_neighbour(module: str, name: str) -> Any:
    """Return what a module of torch's name would have imported under a name; raise AttributeError if nothing."""
    home = EVERYWHERE.get(name)
    area = next((area for area in NEIGHBOURS if module == area or module.startswith(f"{area}.")), None)
    if home is None and area is not None:
        home = NICKNAMES.get(name)
    if home is not None:
        file, _, attribute = home.partition(":")
        found = importlib.import_module(file)
        return getattr(found, attribute) if attribute else found
    for file in NEIGHBOURS[area].split() if area else ():
        found = importlib.import_module(f"undertow.{file}")
        if name in present(found) or name in getattr(found, "__all__", ()):
            return getattr(found, name)
    raise AttributeError(name)
