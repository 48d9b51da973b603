"""PyTorch's random numbers without PyTorch: the same bits for the same seed, and the same state afterwards.

What callers of a `Stream`, which is the CPU's, need to know about PyTorch 2.13, found by running it (a GPU's is in
`cuda_stream.py`):

- Order. In-place draws fill a tensor in the order of its strides, not of its indices: `x.t().uniform_()` on a
  contiguous `x` draws what `x.uniform_()` draws. So does the noise of dropout, which has its input's strides.
  `torch.bernoulli(p)` draws in the order of indices. `normal_` draws in blocks only where `is_contiguous()` is true.
- Nothing is drawn for an empty tensor, nor by dropout with p 0 or 1 or outside training (`native_dropout` does draw).
- Composites. Dropout is `bernoulli(1 - p)`; feature dropout the same with one value per sample and channel; the dropout
  of attention one value per weight. `torch.normal(mean, std)` with tensors draws standard normals (with a number for
  `std`: normals of that `std` around 0), then multiplies by `std` and adds `mean`, each step rounded. `rrelu` draws a
  double uniform per negative value. Beta is a Dirichlet over two numbers.
- `fork_rng` saves `get_state()` and puts it back. A new `Generator` has `DEFAULT_SEED`.
- A `DataLoader` draws its base seed, one 64-bit `integers(1)`, per pass. `RandomSampler` without a generator draws one
  more, seeds a new generator with it and draws `permutation(n)` there; with a generator it draws the permutation alone.
  `random_split` draws one permutation from the stream itself.

This agrees bit for bit with PyTorch's builds for AVX2 and AVX-512; its build without vector instructions differs in the
last bit of float32 normals and of scaled draws.
"""

from undertow._src.random.cpu_stream import Stream as Stream
from undertow._src.random.mersenne_twister import DEFAULT_SEED as DEFAULT_SEED
from undertow._src.random.mersenne_twister import STATE_BYTES as STATE_BYTES
