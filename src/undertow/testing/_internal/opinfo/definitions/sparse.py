"""The operators of `torch.sparse`."""

from undertow.testing._internal.opinfo.definitions import family

op_db = family("sparse.")
