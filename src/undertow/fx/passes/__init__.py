"""`torch.fx.passes`: passes over graphs that add metadata to nodes."""

from undertow.fx.passes import shape_prop as shape_prop
