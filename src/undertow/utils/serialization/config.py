"""Settings for checkpoints: `config.load.mmap = True`, `config.patch({"load.mmap": True})`."""

import mmap as _mmap
import sys as _sys

from undertow.utils._config_module import install_config_module as _install

_TYPE_CHECKING = False


class load:
    """Settings for reading. Offsets are not calculated: they are read from the archive."""

    mmap = False
    endianness = None
    mmap_flags = getattr(_mmap, "MAP_PRIVATE", None)  # Windows has no such name
    calculate_storage_offsets = False


class save:
    """Settings for writing. There is no pinned memory."""

    compute_crc32 = True
    use_pinned_memory_for_d2h = False
    storage_alignment = 64


_install(_sys.modules[__name__])
