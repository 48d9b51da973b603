"""Values as TensorBoard's messages."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.hparams.api_pb2 import DataType, Experiment, HParamInfo, MetricInfo, MetricName, Status
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo

from undertow._src.tensor.core import TensorCore

__all__ = ["custom_scalars", "histogram", "hparams", "image", "scalar", "text"]


def as_array(value: Any) -> Any:
    """Return a tensor, a number or a list as an array."""
    if isinstance(value, TensorCore):
        value = value.detach()
        return (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    return np.asarray(value)


def scalar(name: str, value: Any, new_style: bool = False, double_precision: bool = False) -> Any:
    """Return the message of a number."""
    array = as_array(value).squeeze()
    if array.ndim:
        raise AssertionError(
            f"Tensor should contain one element (0 dimensions). Was given size: {array.size} and {array.ndim} dimensions."
        )
    number = float(array)
    if not new_style:
        return Summary(value=[Summary.Value(tag=name, simple_value=number)])
    kind, field = ("DT_DOUBLE", "double_val") if double_precision else ("DT_FLOAT", "float_val")
    tensor = TensorProto(dtype=kind, **{field: [number]})
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))
    return Summary(value=[Summary.Value(tag=name, tensor=tensor, metadata=metadata)])


def histogram(name: str, values: Any, bins: Any = "tensorflow", max_bins: int | None = None) -> Any:
    """Return the message of a histogram; `bins` as in NumPy, or TensorFlow's edges."""
    array = as_array(values).reshape(-1).astype(np.float64)
    if not array.size:
        raise ValueError("The input has no element.")
    counts, edges = np.histogram(array, bins=_edges() if isinstance(bins, str) and bins == "tensorflow" else bins)
    if max_bins is not None and counts.size > max_bins:
        step = -(-counts.size // max_bins)
        counts = np.add.reduceat(counts, np.arange(0, counts.size, step))
        edges = np.append(edges[:-1:step], edges[-1])
    total = np.cumsum(counts > 0)
    first, last = np.searchsorted(total, [0, total[-1] - 1], side="right")
    first, last = int(first), int(last) + 1
    kept = counts[first - 1 : last] if first > 0 else np.concatenate([[0], counts[:last]])
    if kept.size == 0:
        raise ValueError("The histogram is empty, please file a bug report.")
    proto = HistogramProto(
        min=array.min(), max=array.max(), num=array.size, sum=array.sum(), sum_squares=float(array @ array),
        bucket_limit=edges[first : last + 1].tolist(), bucket=kept.tolist(),
    )  # fmt: skip
    return Summary(value=[Summary.Value(tag=name, histo=proto)])


def _edges() -> list[float]:
    """Return TensorFlow's bin edges, which grow by a tenth on both sides of zero."""
    positive, edge = [], 1e-12
    while edge < 1e20:
        positive.append(edge)
        edge *= 1.1
    return [-each for each in reversed(positive)] + [0.0] + positive


def image(name: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Any:
    """Return the message of an image, or of several in a row."""
    array = _as_rows(as_array(tensor), dataformats)
    scale = 255 if array.dtype.kind == "f" else 1
    pixels = np.clip(array.astype(np.float32) * scale * rescale, 0, 255).astype(np.uint8)
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(file, "PNG")
    height, width, depth = pixels.shape
    picture = Summary.Image(height=height, width=width, colorspace=depth, encoded_image_string=file.getvalue())
    return Summary(value=[Summary.Value(tag=name, image=picture)])


def _as_rows(array: Any, dataformats: str) -> Any:
    """Return pixels as height × width × channels."""
    order = dataformats.upper()
    if array.ndim != len(order):
        raise AssertionError(
            f"size of input tensor and input format are different. tensor shape: {array.shape}, input_format: {dataformats}"
        )
    if order == "HW":
        return np.stack([array] * 3, -1)
    if len(order) == 3:
        array = array.transpose([order.index(letter) for letter in "HWC"])
        return np.concatenate([array] * 3, -1) if array.shape[-1] == 1 else array
    array = array.transpose([order.index(letter) for letter in "NHWC"])
    columns = min(8, array.shape[0])
    rows = -(-array.shape[0] // columns)
    blank = np.zeros((rows * columns - array.shape[0], *array.shape[1:]), array.dtype)
    grid = np.concatenate([array, blank]).reshape(rows, columns, *array.shape[1:])
    joined = grid.transpose(0, 2, 1, 3, 4).reshape(rows * array.shape[1], columns * array.shape[2], array.shape[3])
    return np.concatenate([joined] * 3, -1) if joined.shape[-1] == 1 else joined


def text(name: str, words: str) -> Any:
    """Return the message of a text."""
    plugin = SummaryMetadata.PluginData(plugin_name="text", content=b"")
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    tensor = TensorProto(dtype="DT_STRING", string_val=[words.encode("utf_8")], tensor_shape=shape)
    value = Summary.Value(tag=f"{name}/text_summary", metadata=SummaryMetadata(plugin_data=plugin), tensor=tensor)
    return Summary(value=[value])


def custom_scalars(layout: Any) -> Any:
    """Return the message of a layout of charts."""
    return text("custom_scalars__config__", json.dumps(layout))


def hparams(hparam_dict: Any, metric_dict: Any, hparam_domain_discrete: Any = None) -> tuple[Any, Any, Any]:
    """Return the messages of hyperparameters: the experiment, this run's start, and its end."""
    for name, given in (("hparam_dict", hparam_dict), ("metric_dict", metric_dict)):
        if not isinstance(given, dict):
            raise TypeError(f"parameter: {name} should be a dictionary, nothing logged.")
    domains = hparam_domain_discrete or {}
    if not isinstance(domains, dict):
        raise TypeError("parameter: hparam_domain_discrete should be a dictionary, nothing logged.")
    experiment, start = Experiment(), SessionStartInfo()
    for name, value in hparam_dict.items():
        if value is None:
            continue
        if isinstance(value, TensorCore):
            value = float(as_array(value).reshape(-1)[0])
        if not isinstance(value, (int, float, str)):
            raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")
        textual = isinstance(value, str)
        kind = DataType.DATA_TYPE_STRING if textual else DataType.DATA_TYPE_FLOAT64
        info = HParamInfo(name=name, type=kind)
        for choice in domains.get(name, ()):
            info.domain_discrete.values.add(**{"string_value" if isinstance(choice, str) else "number_value": choice})
        experiment.hparam_infos.append(info)
        setattr(start.hparams[name], "string_value" if textual else "number_value", value)
    experiment.metric_infos.extend(MetricInfo(name=MetricName(tag=name)) for name in metric_dict)
    return (
        _of_hparams("experiment", experiment=experiment),
        _of_hparams("session_start_info", session_start_info=start),
        _of_hparams("session_end_info", session_end_info=SessionEndInfo(status=Status.STATUS_SUCCESS)),
    )


def _of_hparams(name: str, **content: Any) -> Any:
    data = HParamsPluginData(version=0, **content).SerializeToString()
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="hparams", content=data))
    return Summary(value=[Summary.Value(tag=f"_hparams_/{name}", metadata=metadata)])
