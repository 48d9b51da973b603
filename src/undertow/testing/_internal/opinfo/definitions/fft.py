"""The operators of `torch.fft`."""

from undertow.testing._internal.opinfo.definitions import family

op_db = family("fft.")
