"""`load`: read objects from a file that PyTorch or undertow saved."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import sys
from typing import IO, Any

from undertow._src.base.sites import warn
from undertow.serialization import legacy
from undertow.serialization.archive import ArchiveReader, map_file
from undertow.serialization.limits import shown
from undertow.serialization.locations import MAP_LOCATION, restorer
from undertow.serialization.named_in import NameReader
from undertow.serialization.safe_globals import ALLOWED, added_by_name
from undertow.serialization.saving import FileLike
from undertow.serialization.settings import LoadEndianness, settings
from undertow.serialization.storages import StorageType, TypedStorage, check_pid
from undertow.serialization.unpickling import Source
from undertow.storage import UntypedStorage
from undertow.utils.serialization import config

_ZIP = b"PK\3\4"


def load(
    f: FileLike, map_location: MAP_LOCATION = None, pickle_module: Any = None, *, weights_only: bool | None = None,
    mmap: bool | None = None, **pickle_load_args: Any,
) -> Any:  # fmt: skip
    """Load what `save` wrote, from a path or a seekable file.

    weights_only   True (the default): only tensors, numbers, text and plain containers, and what `add_safe_globals`
                   names; nothing in the file is run. False: a pickle that may run any code. Only for files you trust.
    map_location   where storages go: a device, a dict from saved to new location, or f(storage, location)
    mmap           True: leave the storages in the file until they are used
    """
    if weights_only is None:
        weights_only = _default_weights_only(pickle_module)
    elif weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    mmap = config.load.mmap if mmap is None else mmap
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a file path in order to use the mmap argument")
    if weights_only and pickle_load_args:
        warn("pickle_load_args only works if `weights_only=False`.")
        for name in pickle_load_args.keys() - {"encoding"}:
            raise TypeError(f"Unpickler.__init__() got an unexpected keyword argument {name!r}")
    pickle_load_args.setdefault("encoding", "utf-8")
    source = Source(f, weights_only, pickle_module or pickle, pickle_load_args)
    with _opened(f) as file:
        _check_seekable(file)
        start = file.tell()
        opening = file.read(len(_ZIP))
        if not isinstance(opening, bytes):
            raise AssertionError(f"Expected bytes, got {type(opening).__name__}. Open the file in binary mode.")
        if not opening:
            raise EOFError(f"{source.label} is empty: nothing was saved to it")
        file.seek(start)
        if opening == _ZIP[: len(opening)]:
            return _load_archive(source, file, map_location, map_file(f) if mmap else None)  # type: ignore[arg-type]
        if mmap:
            raise RuntimeError(
                f"mmap can only be used with files saved with `torch.save({f}, _use_new_zipfile_serialization=True), "
                "please save your checkpoint again in that format in order to use mmap."
            )
        return legacy.load(source, file, restorer(map_location))


def _opened(f: FileLike) -> contextlib.AbstractContextManager[Any]:
    """Return a path opened for the block, or an open file as it is."""
    return open(f, "rb") if isinstance(f, (str, os.PathLike)) else contextlib.nullcontext(f)


def _default_weights_only(pickle_module: Any) -> bool:
    """Return the default of weights_only: True, unless a pickle module is given or the environment says otherwise."""
    if os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0").lower() in ("1", "y", "yes", "true"):
        return True
    if os.environ.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0").lower() in ("1", "y", "yes", "true"):
        return False
    return pickle_module is None


def _check_seekable(file: Any) -> None:
    for name in ("seek", "tell", "read", "readline"):
        if not hasattr(file, name):
            raise AttributeError(
                f"{type(file).__name__!r} object has no attribute {name!r}. You can only torch.load from a file that is "
                "seekable. Read it into an io.BytesIO and load from that."
            )


# --- the zip format


def _load_archive(source: Source, file: IO[bytes], map_location: MAP_LOCATION, mapped: Any) -> Any:
    archive = ArchiveReader(file, source.label, mapped)
    if "constants.pkl" in archive:
        raise RuntimeError(
            f"Cannot load {source.label}: it is a TorchScript archive, a compiled program that undertow has no "
            "interpreter for. Load it in PyTorch and save its state_dict()."
        )
    swapped = _byteorder(archive) != sys.byteorder
    restore = restorer(map_location)
    loaded: dict[str, Any] = {}

    def persistent_load(pid: Any) -> Any:
        kind, key, location, count = check_pid(pid)
        if key not in loaded:
            nbytes = count * kind.itemsize
            held = archive.size(f"data/{key}")
            if held != nbytes:
                raise RuntimeError(f"storage {key} of {source.label} has {held} bytes, but {nbytes} were expected")
            if settings.skips_data:
                content = archive.blank(f"data/{key}")
            else:
                content = _aligned(archive.read(f"data/{key}") if mapped is None else archive.map(f"data/{key}"), kind)
            if swapped:
                content = kind.swapped(content)
            loaded[key] = source.restored(restore, UntypedStorage(content), location)
        memory = loaded[key]
        return memory if kind.dtype is None else TypedStorage.over(memory, kind.dtype)

    pickled = archive.read("data.pkl").tobytes()
    return source.unpickle(io.BytesIO(pickled), len(pickled), persistent_load)


def _byteorder(archive: ArchiveReader) -> str:
    if "byteorder" in archive:
        found = archive.read("byteorder").tobytes().decode("ascii", "replace")
        if found not in ("little", "big"):
            raise ValueError(f"Unknown endianness type: {shown(found, 20)} in {archive.label}")
        return found
    assumed = config.load.endianness
    if assumed is LoadEndianness.NATIVE:
        return sys.byteorder
    return "big" if assumed is LoadEndianness.BIG else "little"


def _aligned(content: Any, kind: StorageType) -> Any:
    """Return the bytes at an aligned address; only files by other writers need a copy."""
    address = content.__array_interface__["data"][0]
    return content if address % min(kind.itemsize, 8) == 0 else content.copy()


def get_unsafe_globals_in_checkpoint(f: FileLike) -> list[str]:
    """Return the names in a file that weights_only=True refuses, without running anything.

    A file is refused if its names cannot all be determined without running it.
    """
    source = Source(f, True, pickle, {})
    with _opened(f) as file:
        start = file.tell()
        opening = file.read(len(_ZIP))
        file.seek(start)
        if opening != _ZIP:
            raise ValueError(
                f"Expected input to be a checkpoint returned by torch.save, but {source.label} is not a zip file"
            )
        pickled = ArchiveReader(file, source.label).read("data.pkl").tobytes()
    allowed = {*ALLOWED, *added_by_name()}
    return [name for name in source.run(NameReader(pickled, allowed)) if name not in allowed]
