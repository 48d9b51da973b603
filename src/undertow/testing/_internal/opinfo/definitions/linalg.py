"""The operators of `torch.linalg`."""

from undertow.testing._internal.opinfo.definitions import family

op_db = family("linalg.")
