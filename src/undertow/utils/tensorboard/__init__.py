"""`torch.utils.tensorboard`: records of a training for TensorBoard, written with TensorBoard's own package."""

from tensorboard.summary.writer.event_file_writer import EventFileWriter as EventFileWriter

from undertow.utils.tensorboard.writer import FileWriter as FileWriter
from undertow.utils.tensorboard.writer import SummaryWriter as SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
