"""`.safetensors` files: tensors by name, without code, through the safetensors library.

    from undertow.serialization.safetensors import load_file, save_file
    save_file(model.state_dict(), "model.safetensors")
    model.load_state_dict(load_file("model.safetensors"))

The functions are those of `safetensors.torch`. The library checks and writes the file; tensors are read directly into
their memory, bfloat16 included, or left in the file with `mmap=True`.
"""

from __future__ import annotations

import json
import mmap as memory_map
import os
from typing import IO, Any

import numpy as np

from undertow._src.tensor.core import TensorCore, wrap
from undertow._src.types import dtypes
from undertow.serialization.atomic import replacing_by_name
from undertow.serialization.locations import default_restore_location
from undertow.storage import UntypedStorage, root_of

Tensors = dict[str, Any]
Path = str | os.PathLike[str]

_DTYPES = {
    "BOOL": dtypes.bool, "U8": dtypes.uint8, "I8": dtypes.int8, "I16": dtypes.int16, "U16": dtypes.uint16,
    "I32": dtypes.int32, "U32": dtypes.uint32, "I64": dtypes.int64, "U64": dtypes.uint64, "F16": dtypes.float16,
    "BF16": dtypes.bfloat16, "F32": dtypes.float32, "F64": dtypes.float64, "C64": dtypes.complex64,
    "F8_E4M3": dtypes.float8_e4m3fn, "F8_E5M2": dtypes.float8_e5m2,
}  # fmt: skip
_LENGTH_BYTES = 8  # the size of the header's length field


def _library() -> Any:
    try:
        import safetensors
    except ImportError:
        raise ImportError("safetensors files need the safetensors library: pip install safetensors") from None
    return safetensors


# --- reading


def load_file(filename: Path, device: Any = "cpu", *, mmap: bool = False) -> Tensors:
    """Return the tensors of a file by name. `mmap=True` leaves them in the file until they are used."""
    library = _library()
    name = os.fspath(filename)
    try:
        with library.safe_open(name, framework="np") as checked:
            names = list(checked.keys())
    except library.SafetensorError as error:
        raise library.SafetensorError(f"{name}: {error}") from None
    with open(name, "rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        header = json.loads(file.read(length))
        begin = _LENGTH_BYTES + length
        mapped = memory_map.mmap(file.fileno(), 0, access=memory_map.ACCESS_COPY) if mmap else None
        return {key: _on(device, _read(file, mapped, begin, key, header[key], name)) for key in names}


def load(data: bytes) -> Tensors:
    """Return the tensors of a file's bytes by name."""
    tensors = {}
    for key, entry in _library().deserialize(data):
        kind = _dtype(entry["dtype"], key)
        content = np.frombuffer(bytearray(entry["data"]), kind.numpy)
        tensors[key] = wrap(content.reshape(entry["shape"]))
    return tensors


def _read(file: IO[bytes], mapped: Any, begin: int, key: str, entry: dict[str, Any], name: str) -> Any:
    kind = _dtype(entry["dtype"], f"{key} of {name}")
    first, last = (begin + offset for offset in entry["data_offsets"])
    count = (last - first) // kind.itemsize
    if mapped is not None and count and first % kind.itemsize == 0:
        return wrap(np.frombuffer(mapped, kind.numpy, count, first).reshape(entry["shape"]))
    array = np.empty(count, kind.numpy)
    file.seek(first)
    row = array.view(np.uint8).data
    while row:
        got = file.readinto(row)  # type: ignore[attr-defined]
        if not got:
            raise RuntimeError(f"{name} ends in the middle of {key}")
        row = row[got:]
    return wrap(array.reshape(entry["shape"]))


def _dtype(name: str, where: str) -> dtypes.dtype:
    if name not in _DTYPES:
        raise TypeError(f"tensor {where} has the dtype {name}, which undertow does not have")
    return _DTYPES[name]


def _on(device: Any, tensor: Any) -> Any:
    if str(device) != "cpu":
        default_restore_location(UntypedStorage(tensor._array), str(device))
        tensor = tensor.to(device)
    return tensor


# --- writing


def save_file(tensors: Tensors, filename: Path, metadata: dict[str, str] | None = None) -> None:
    """Save tensors by name. An interrupted save leaves the old file as it was."""
    library = _library()
    specs, alive = _specs(library, tensors)
    with replacing_by_name(os.fspath(filename)) as name:
        library.serialize_file(specs, name, metadata=metadata)
    del alive


def save(tensors: Tensors, metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a file that holds the tensors by name."""
    library = _library()
    specs, alive = _specs(library, tensors)
    content = bytes(library.serialize(specs, metadata=metadata))
    del alive
    return content


def _specs(library: Any, tensors: Tensors) -> tuple[dict[str, Any], list[Any]]:
    """Return the library's description of each tensor, and the arrays to keep alive while it writes."""
    _check(tensors)
    specs, alive = {}, []
    for key, tensor in tensors.items():
        array = np.ascontiguousarray(tensor._array)
        alive.append(array)
        shape, name = list(tensor.shape), dtypes.DTYPE_OF[array.dtype].name
        if hasattr(library, "TensorSpec"):
            specs[key] = library.TensorSpec(
                dtype=name, shape=shape, data_ptr=array.__array_interface__["data"][0], data_len=array.nbytes
            )
        else:  # before version 0.8
            specs[key] = {"dtype": name, "shape": shape, "data": array.tobytes()}
    return specs, alive


def _check(tensors: Tensors) -> None:
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    sharing: dict[int, list[str]] = {}
    for key, tensor in tensors.items():
        if not isinstance(tensor, TensorCore):
            raise ValueError(f"Key `{key}` is invalid, expected torch.Tensor but received {type(tensor)}")
        if not tensor._array.flags.c_contiguous:
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{key}` which is not allowed. Save the whole tensor "
                "and slice it after loading, or save its `.contiguous()`."
            )
        if tensor._array.size:
            sharing.setdefault(id(root_of(tensor._array)), []).append(key)
    shared = [set(keys) for keys in sharing.values() if len(keys) > 1]
    if shared:
        raise RuntimeError(
            "Some tensors share memory, this will lead to duplicate memory on disk and potential differences when loading "
            f"them again: {shared}. Save one of each, or a `.clone()`."
        )
