"""Settings of a code generator that undertow does not have: any may be set, none is read."""

import sys as _sys

from undertow.utils._config_module import install_config_module as _install

debug = max_autotune = cpp_wrapper = freezing = fallback_random = force_disable_caches = emulate_precision_casts = False
fx_graph_cache = fx_graph_remote_cache = implicit_fallbacks = epilogue_fusion = pattern_matcher = True
compile_threads = 1
cpu_backend = "cpp"


class cpp:
    """Settings of generated C++."""

    threads = -1
    simdlen = None


class triton:
    """Settings of generated Triton kernels."""

    cudagraphs = unique_kernel_names = False


_install(_sys.modules[__name__], open_ended=True)
