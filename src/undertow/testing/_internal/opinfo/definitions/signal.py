"""The operators of `torch.signal`."""

from undertow.testing._internal.opinfo.definitions import family

op_db = family("signal.")
