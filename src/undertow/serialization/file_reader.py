"""`torch.PyTorchFileReader` and `torch.PyTorchFileWriter`: a checkpoint's records by name."""

from __future__ import annotations

import os
from typing import IO, Any

from undertow._src.tensor.from_data import frombuffer
from undertow._src.types.dtypes import dtype
from undertow.serialization.archive import ArchiveReader, ArchiveWriter

__all__ = ["PyTorchFileReader", "PyTorchFileWriter"]


class PyTorchFileReader:
    """The records of a checkpoint, given by its path or as an open file."""

    def __init__(self, file: Any) -> None:
        opened: IO[bytes] = open(file, "rb") if isinstance(file, (str, os.PathLike)) else file
        self._archive = ArchiveReader(opened, str(file))

    def has_record(self, name: str) -> bool:
        """Whether there is a record with this name."""
        return name in self._archive

    def get_record(self, name: str) -> bytes:
        """Return a record's bytes."""
        return self._archive.read(name).tobytes()

    def get_storage_from_record(self, name: str, numel: int, dtype: dtype) -> Any:
        """Return a record as a tensor with this number of elements."""
        return frombuffer(bytearray(self.get_record(name)), dtype=dtype, count=numel)

    def get_record_offset(self, name: str) -> int:
        """Return the offset of a record's bytes in the file."""
        return self._archive.begin(self._archive.record(name))

    def get_all_records(self) -> list[str]:
        """Return the names of all records."""
        return [name.removeprefix(self._archive.folder) for name in self._archive.records]

    def version(self) -> int:
        """Return the version of the format."""
        return int(self.get_record("version")) if self.has_record("version") else 3

    def archive_name(self) -> str:
        """Return the folder in the archive that holds the records."""
        return self._archive.folder.rstrip("/")


class PyTorchFileWriter:
    """Writes the records of a checkpoint."""

    def __init__(self, file: Any, *args: Any, **kwargs: Any) -> None:
        self._owned = isinstance(file, (str, os.PathLike))
        self._file: IO[bytes] = open(file, "wb") if self._owned else file
        stem = os.path.splitext(os.path.basename(os.fspath(file)))[0] if self._owned else "archive"
        self._archive = ArchiveWriter(self._file, stem)

    def write_record(self, name: str, data: Any, size: int | None = None) -> None:
        """Add a record: bytes, or the storage of a tensor."""
        content = data if isinstance(data, (bytes, bytearray, memoryview, str)) else bytes(data)
        self._archive.write(name, content.encode() if isinstance(content, str) else content)

    def write_end_of_file(self) -> None:
        """Write the directory; without it the archive cannot be read."""
        self._archive.write("version", b"3\n")
        self._archive.finish()
        if self._owned:
            self._file.close()
