"""`torch.utils.data.datapipes`: datasets that are chained. The two base classes are here, ready-made links are not."""

from undertow.utils.data.datapipes.datapipe import IterDataPipe as IterDataPipe
from undertow.utils.data.datapipes.datapipe import MapDataPipe as MapDataPipe
