"""Settings of a compiler of backward passes that undertow has not got: they are kept, any may be set, none is read."""

import sys as _sys

from undertow.utils._config_module import install_config_module as _install

functionalize_rng_ops = debug_assert = debug_partitioner = recompute_views = aggressive_recomputation = False
fake_tensor_allow_meta = cse = enable_autograd_cache = view_replay_for_aliased_outputs = donated_buffer = True
activation_memory_budget = 1.0

_install(_sys.modules[__name__], open_ended=True)
