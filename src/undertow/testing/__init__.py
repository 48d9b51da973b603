"""`torch.testing`: comparison of values, and random tensors for tests."""

from undertow.testing._comparison import assert_allclose as assert_allclose
from undertow.testing._comparison import assert_close as assert_close
from undertow.testing._creation import make_tensor as make_tensor
from undertow.testing._firing import assert_same_firing as assert_same_firing

__all__ = ["assert_allclose", "assert_close", "assert_same_firing", "make_tensor"]
