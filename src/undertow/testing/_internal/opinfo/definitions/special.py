"""The operators of `torch.special`."""

from undertow.testing._internal.opinfo.definitions import family

op_db = family("special.")
