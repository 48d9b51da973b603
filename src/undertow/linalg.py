"""`torch.linalg`: linear algebra on matrices and stacks of them."""

from undertow._src.base.errors import _LinAlgError as LinAlgError
from undertow._src.base.lazy import lazy_names
from undertow._src.ops.decompositions import linalg_eig as eig
from undertow._src.ops.decompositions import linalg_eigh as eigh
from undertow._src.ops.decompositions import linalg_eigvals as eigvals
from undertow._src.ops.decompositions import linalg_eigvalsh as eigvalsh
from undertow._src.ops.decompositions import linalg_lstsq as lstsq
from undertow._src.ops.decompositions import linalg_matrix_exp as matrix_exp
from undertow._src.ops.decompositions import linalg_matrix_rank as matrix_rank
from undertow._src.ops.decompositions import linalg_pinv as pinv
from undertow._src.ops.decompositions import linalg_qr as qr
from undertow._src.ops.decompositions import linalg_svd as svd
from undertow._src.ops.decompositions import linalg_svdvals as svdvals
from undertow._src.ops.factor import linalg_cond as cond
from undertow._src.ops.factor import linalg_det as det
from undertow._src.ops.factor import linalg_inv as inv
from undertow._src.ops.factor import linalg_inv_ex as inv_ex
from undertow._src.ops.factor import linalg_matrix_power as matrix_power
from undertow._src.ops.factor import linalg_slogdet as slogdet
from undertow._src.ops.factor import linalg_solve as solve
from undertow._src.ops.factor import linalg_solve_ex as solve_ex
from undertow._src.ops.factor import linalg_tensorinv as tensorinv
from undertow._src.ops.factor import linalg_tensorsolve as tensorsolve
from undertow._src.ops.matmul import matmul
from undertow._src.ops.norms import linalg_matrix_norm as matrix_norm
from undertow._src.ops.norms import linalg_norm as norm
from undertow._src.ops.norms import linalg_vector_norm as vector_norm
from undertow._src.ops.products import linalg_cross as cross
from undertow._src.ops.products import linalg_diagonal as diagonal
from undertow._src.ops.products import linalg_multi_dot as multi_dot
from undertow._src.ops.products import linalg_vander as vander
from undertow._src.ops.products import linalg_vecdot as vecdot
from undertow._src.ops.triangular import linalg_cholesky as cholesky
from undertow._src.ops.triangular import linalg_cholesky_ex as cholesky_ex
from undertow._src.ops.triangular import linalg_lu as lu
from undertow._src.ops.triangular import linalg_lu_factor as lu_factor
from undertow._src.ops.triangular import linalg_lu_factor_ex as lu_factor_ex
from undertow._src.ops.triangular import linalg_solve_triangular as solve_triangular

_LAZY = {
    "householder_product": "undertow._src.ops.householder:linalg_householder_product",
    "ldl_factor": "undertow._src.ops.ldl:linalg_ldl_factor",
    "ldl_factor_ex": "undertow._src.ops.ldl:linalg_ldl_factor_ex",
    "ldl_solve": "undertow._src.ops.ldl:linalg_ldl_solve",
    "lu_solve": "undertow._src.ops.lu:linalg_lu_solve",
}
__getattr__, __dir__ = lazy_names(__name__, _LAZY)

__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh",
    "inv", "inv_ex", "lstsq", "lu", "lu_factor", "lu_factor_ex", "matmul", "matrix_exp", "matrix_norm", "matrix_power",
    "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd",
    "svdvals", "tensorinv", "tensorsolve", "vander", "vecdot", "vector_norm",
]  # fmt: skip
