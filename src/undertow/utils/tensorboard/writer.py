"""`SummaryWriter`: logs of a training in TensorBoard's files."""

from __future__ import annotations

import os
import socket
import time
from datetime import datetime
from typing import Any, NoReturn

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from undertow.utils.tensorboard import summary

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Writes messages to a file in a folder."""

    def __init__(self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "") -> None:
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write an event, with its time and step."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """Write a value."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        self.event_writer.flush()

    def close(self) -> None:
        self.event_writer.close()


class SummaryWriter:
    """Logs scalars, histograms, images and texts for TensorBoard.

    Without a folder it creates one in `runs`, named after the time and the machine.
    """

    def __init__(
        self, log_dir: Any = None, comment: str = "", purge_step: Any = None, max_queue: int = 10, flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:  # fmt: skip
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir, self.purge_step = str(log_dir), purge_step
        self._options = max_queue, flush_secs, filename_suffix
        self.file_writer: Any = None
        self.all_writers: Any = None
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        if self.file_writer is None:
            writer = self.file_writer = FileWriter(self.log_dir, *self._options)
            self.all_writers = {self.log_dir: writer}
            step, self.purge_step = self.purge_step, None
            if step is not None:  # a restarted session: what was logged from that step on is hidden
                start = SessionLog(status=SessionLog.START)
                for mark in ({"file_version": "brain.Event:2"}, {"session_log": start}):
                    writer.add_event(Event(step=step, **mark))
        return self.file_writer

    def get_logdir(self) -> str:
        """Return the folder that is written to."""
        return self.log_dir

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: Any = None, walltime: float | None = None,
        new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """Log a number at a step."""
        made = summary.scalar(tag, scalar_value, new_style, double_precision)
        self._get_file_writer().add_summary(made, global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Log several numbers in one chart, each in its own folder."""
        self._get_file_writer()
        for tag, value in tag_scalar_dict.items():
            folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            if folder not in self.all_writers:
                self.all_writers[folder] = FileWriter(folder, *self._options)
            self.all_writers[folder].add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_histogram(
        self, tag: str, values: Any, global_step: Any = None, bins: Any = "tensorflow", walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """Log a histogram of values at a step."""
        made = summary.histogram(tag, values, bins, max_bins)
        self._get_file_writer().add_summary(made, global_step, walltime)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """Log an image."""
        made = summary.image(tag, img_tensor, dataformats=dataformats)
        self._get_file_writer().add_summary(made, global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Log several images in a row."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Log a Matplotlib figure."""
        figure.canvas.draw()
        pixels = summary.np.asarray(figure.canvas.buffer_rgba())[..., :3]
        self.add_image(tag, pixels, global_step, walltime, "HWC")

    def add_text(self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None) -> None:
        """Log a text."""
        self._get_file_writer().add_summary(summary.text(tag, text_string), global_step, walltime)

    def add_hparams(
        self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any], hparam_domain_discrete: Any = None,
        run_name: str | None = None, global_step: Any = None,
    ) -> None:  # fmt: skip
        """Log a run's hyperparameters and metrics, in its own folder."""
        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        messages = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        with SummaryWriter(os.path.join(self.log_dir, run_name or str(time.time()))) as run:
            for message in messages:
                run._get_file_writer().add_summary(message, global_step)
            for name, value in metric_dict.items():
                run.add_scalar(name, value, global_step)

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            "undertow has no torch.utils.tensorboard.SummaryWriter.add_graph, add_embedding, add_mesh, add_video, "
            "add_audio, add_pr_curve or add_custom_scalars"
        )

    add_graph = add_embedding = add_mesh = add_video = add_audio = add_pr_curve = add_custom_scalars = _refuse

    def flush(self) -> None:
        """Write what has not been written yet."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Close all files; later logs start new ones."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
