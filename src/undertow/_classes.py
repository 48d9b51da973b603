"""`torch.classes` by the name of its file."""

from undertow import classes as classes
