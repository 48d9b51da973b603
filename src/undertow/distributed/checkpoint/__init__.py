"""`torch.distributed.checkpoint`: save and load state dicts from all ranks together, with any number of ranks."""

from undertow._src.base.lazy import lazy_names

_HERE = "undertow.distributed.checkpoint"
_MODULES = (
    "api", "default_planner", "filesystem", "format_utils", "metadata", "planner", "state_dict", "state_dict_loader",
    "state_dict_saver", "stateful", "storage",
)  # fmt: skip
_HOMES = {
    "api": "CheckpointException",
    "default_planner": "DefaultLoadPlanner DefaultSavePlanner",
    "filesystem": "FileSystemReader FileSystemWriter",
    "metadata": "BytesStorageMetadata ChunkStorageMetadata Metadata TensorStorageMetadata",
    "planner": "LoadPlan LoadPlanner ReadItem SavePlan SavePlanner WriteItem",
    "state_dict_loader": "load load_state_dict",
    "state_dict_saver": "async_save save save_state_dict",
    "storage": "StorageReader StorageWriter",
}

__all__ = [name for names in _HOMES.values() for name in names.split()]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **{name: f"{_HERE}.{home}" for home, names in _HOMES.items() for name in names.split()},
        **{module: f"{_HERE}.{module}" for module in _MODULES},
    },
)
