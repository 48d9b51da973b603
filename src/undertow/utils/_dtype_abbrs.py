"""Short names of dtypes, as PyTorch's logs write them."""

from undertow._src.types.dtype_abbrs import dtype_abbrs as dtype_abbrs
