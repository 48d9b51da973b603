"""The functions that distributions are written with, under PyTorch's names."""

from undertow._src.base.modes import enable_grad as enable_grad
from undertow._src.base.modes import no_grad as no_grad
from undertow._src.types.dtypes import finfo as finfo
from undertow._src.types.dtypes import get_default_dtype as get_default_dtype
from undertow.creation import empty as empty
from undertow.creation import eye as eye
from undertow.creation import full as full
from undertow.creation import full_like as full_like
from undertow.creation import ones as ones
from undertow.creation import ones_like as ones_like
from undertow.creation import zeros as zeros
from undertow.creation import zeros_like as zeros_like
from undertow.from_data import as_tensor as as_tensor
from undertow.from_data import tensor as tensor
from undertow.ops.activation import softmax as softmax
from undertow.ops.activation import softplus as softplus
from undertow.ops.arrange import tril_indices as tril_indices
from undertow.ops.clamp import xlogy as xlogy
from undertow.ops.compare import isclose as isclose
from undertow.ops.compare import where as where
from undertow.ops.draws import _sample_dirichlet as sample_dirichlet  # noqa: F401
from undertow.ops.draws import _standard_gamma as standard_gamma  # noqa: F401
from undertow.ops.elementwise import maximum as maximum
from undertow.ops.factor import linalg_slogdet as slogdet  # noqa: F401
from undertow.ops.factor import matrix_power as matrix_power
from undertow.ops.join import cat as cat
from undertow.ops.join import stack as stack
from undertow.ops.loss import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from undertow.ops.matmul import bmm as bmm
from undertow.ops.matmul import matmul as matmul
from undertow.ops.reduce import logsumexp as logsumexp
from undertow.ops.stretch import broadcast_tensors as broadcast_tensors
from undertow.ops.triangular import linalg_cholesky as cholesky  # noqa: F401
from undertow.ops.triangular import linalg_solve_triangular as solve_triangular  # noqa: F401
from undertow.random import normal as normal
from undertow.random import rand as rand
from undertow.random import randn as randn
from undertow.ranges import arange as arange
from undertow.tensor_random import bernoulli as bernoulli
from undertow.tensor_random import binomial as binomial
from undertow.tensor_random import multinomial as multinomial
from undertow.tensor_random import poisson as poisson
