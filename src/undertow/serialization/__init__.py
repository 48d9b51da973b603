"""torch.serialization: `save` and `load` in PyTorch's file format, in both directions. PyTorch is not needed."""

import pickle as pickle

from undertow._src.base.lazy import lazy_names
from undertow.serialization.legacy import MAGIC_NUMBER as MAGIC_NUMBER
from undertow.serialization.legacy import PROTOCOL_VERSION as PROTOCOL_VERSION
from undertow.serialization.loading import get_unsafe_globals_in_checkpoint as get_unsafe_globals_in_checkpoint
from undertow.serialization.loading import load as load
from undertow.serialization.locations import MAP_LOCATION as MAP_LOCATION
from undertow.serialization.locations import default_restore_location as default_restore_location
from undertow.serialization.locations import location_tag as location_tag
from undertow.serialization.locations import register_package as register_package
from undertow.serialization.names import get_layout as _get_layout  # noqa: F401
from undertow.serialization.safe_globals import add_safe_globals as add_safe_globals
from undertow.serialization.safe_globals import clear_safe_globals as clear_safe_globals
from undertow.serialization.safe_globals import get_safe_globals as get_safe_globals
from undertow.serialization.safe_globals import safe_globals as safe_globals
from undertow.serialization.saving import DEFAULT_PROTOCOL as DEFAULT_PROTOCOL
from undertow.serialization.saving import FileLike as FileLike
from undertow.serialization.saving import save as save
from undertow.serialization.settings import LoadEndianness as LoadEndianness
from undertow.serialization.settings import get_crc32_options as get_crc32_options
from undertow.serialization.settings import get_default_load_endianness as get_default_load_endianness
from undertow.serialization.settings import get_default_mmap_options as get_default_mmap_options
from undertow.serialization.settings import set_crc32_options as set_crc32_options
from undertow.serialization.settings import set_default_load_endianness as set_default_load_endianness
from undertow.serialization.settings import set_default_mmap_options as set_default_mmap_options
from undertow.serialization.settings import skip_data as skip_data

_HELPERS = (
    "SourceChangeWarning", "StorageType", "check_module_version_greater_or_equal", "normalize_storage_type",
    "storage_to_tensor_type", "validate_cuda_device", "validate_hpu_device",
)  # fmt: skip
_ABOUT_FILES = (
    "INT_SIZE IS_WINDOWS LONG_SIZE MAP_PRIVATE MAP_SHARED SHORT_SIZE STORAGE_KEY_SEPARATOR _check_save_filelike "
    "_check_seekable _default_to_weights_only _get_restore_location _is_compressed_file _is_meta_location _is_path "
    "_is_zipfile _maybe_decode_ascii _open_file_like _should_read_directly"
).split()
_HOMES = dict.fromkeys(_HELPERS, "undertow.serialization.helpers")
_HOMES |= dict.fromkeys(_ABOUT_FILES, "undertow.serialization.file_helpers")
_HOMES |= dict.fromkeys(["_cpu_deserialize", "_cpu_tag"], "undertow.serialization.locations")
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
