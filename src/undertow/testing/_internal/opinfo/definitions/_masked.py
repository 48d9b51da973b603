"""The operators of `torch.masked`."""

from undertow.testing._internal.opinfo.definitions import family

op_db = family("masked.")
