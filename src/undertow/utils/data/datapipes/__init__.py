"""`torch.utils.data.datapipes`: the two base classes of chained datasets; the ready-made pipes are missing."""

from undertow.utils.data.datapipes.datapipe import IterDataPipe as IterDataPipe
from undertow.utils.data.datapipes.datapipe import MapDataPipe as MapDataPipe
