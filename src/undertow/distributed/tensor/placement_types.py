"""`torch.distributed.tensor.placement_types`: the placements of a tensor along one dim of a mesh."""

from undertow._src.distributed.dtensor.placements import NormPartial as _NormPartial
from undertow._src.distributed.dtensor.placements import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard", "_NormPartial"]
