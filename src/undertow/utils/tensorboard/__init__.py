"""`torch.utils.tensorboard`: training logs for TensorBoard, written with the tensorboard package."""

from tensorboard.summary.writer.event_file_writer import EventFileWriter as EventFileWriter

from undertow.utils.tensorboard.writer import FileWriter as FileWriter
from undertow.utils.tensorboard.writer import SummaryWriter as SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
