"""`torch.distributed.tensor.placement_types`: how a tensor lies along one dim of a mesh."""

from undertow._src.distributed.dtensor.placements import NormPartial as _NormPartial
from undertow._src.distributed.dtensor.placements import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard", "_NormPartial"]
