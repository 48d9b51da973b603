"""`torch.fx.passes`: walks over graphs that note something of every node."""

from undertow.fx.passes import shape_prop as shape_prop
