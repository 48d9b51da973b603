"""`torch.distributed.tensor`: tensors whose parts are on the ranks of a mesh."""

from undertow._src.base.lazy import lazy_names

_HOME = "undertow._src.distributed.dtensor"

__all__ = [
    "DTensor", "distribute_tensor", "distribute_module", "Shard", "Replicate", "Partial", "Placement", "ones", "empty",
    "full", "rand", "randn", "zeros",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "DTensor": f"{_HOME}.dtensor",
        **dict.fromkeys(("Shard", "Replicate", "Partial", "Placement"), f"{_HOME}.placements"),
        **dict.fromkeys(
            ("distribute_tensor", "distribute_module", "ones", "empty", "full", "rand", "randn", "zeros"),
            f"{_HOME}.making",
        ),
        **dict.fromkeys(("DeviceMesh", "init_device_mesh"), "undertow.distributed.device_mesh"),
        "device_mesh": "undertow.distributed.device_mesh",
        "parallel": "undertow.distributed.tensor.parallel",
        "placement_types": "undertow.distributed.tensor.placement_types",
    },
)
