"""Singular vectors with the signs that PyTorch's LAPACK gives them.

Singular vectors are determined up to a sign, which depends on how LAPACK reaches the bidiagonal matrix. For a real
matrix PyTorch's (MKL) starts with a QR decomposition from rows = 3/2 columns on, that of NumPy and JAX (OpenBLAS) from
11/6 on; for a wide one PyTorch's starts with an LQ decomposition only from columns = 20 rows on, the others' from 11/6
on. For complex matrices they agree. Found by experiment, which `tests/oracle/test_svd_signs.py` repeats.

`lib` is NumPy, or JAX's namespace of the same names.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any
Parts = tuple[Array, Array, Array]


def signed_svd(lib: Any, x: Array, full: bool) -> Parts:
    """Return `linalg.svd` computed the way PyTorch's LAPACK does."""
    rows, columns = x.shape[-2:]
    if x.dtype.kind == "f" and x.size:
        if rows > columns and rows >= columns * 3 // 2 and not _takes_qr(rows, columns):
            return _completed(lib, x, _after_qr(lib, x), full)
        if 1 < rows < columns < 20 * rows and _takes_qr(columns, rows):
            parts, deficient = _without_lq(lib, x)
            if lib is np and not deficient.any():
                return _completed(lib, x, parts, full)
            usual = lib.linalg.svd(x, full_matrices=False)
            masks = (deficient[..., None, None], deficient[..., None], deficient[..., None, None])
            chosen = [lib.where(mask, *each) for mask, *each in zip(masks, usual, parts, strict=True)]
            return _completed(lib, x, (chosen[0], chosen[1], chosen[2]), full)
    u, s, vh = lib.linalg.svd(x, full_matrices=full)
    return u, s, vh


def _takes_qr(long: int, short: int) -> bool:
    """Whether OpenBLAS starts with a QR (or LQ) decomposition."""
    return long >= int(short * 11 / 6)


def _after_qr(lib: Any, x: Array) -> Parts:
    q, r = lib.linalg.qr(x)
    u, s, vh = lib.linalg.svd(r, full_matrices=False)
    return q @ u, s, vh


def _without_lq(lib: Any, x: Array) -> tuple[Parts, Array]:
    """Return the decomposition of a wide matrix without an LQ decomposition, and which of a stack lack full rank.

    Of those, the vectors of a zero cannot be told from those of the zero rows. Rows and columns of zeros change no
    reflection, and neither does an orthogonal change of the columns after the square: so the matrix is brought to a
    shape for which OpenBLAS takes the direct way.
    """
    rows, columns = x.shape[-2:]
    behind = None
    if columns > 2 * rows:
        behind, rest = lib.linalg.qr(lib.swapaxes(x[..., rows:], -2, -1))
        x = lib.concatenate([x[..., :rows], lib.swapaxes(rest, -2, -1)], -1)
    height, width = rows, x.shape[-1]
    while _takes_qr(width, height) or height >= width:
        height, width = (height + 1, width) if _takes_qr(width, height) else (height, width + 1)
    padded = lib.pad(x, [(0, 0)] * (x.ndim - 2) + [(0, height - rows), (0, width - x.shape[-1])])
    u, s, vh = lib.linalg.svd(padded, full_matrices=False)
    u, s, vh = u[..., :rows, :rows], s[..., :rows], vh[..., :rows, : x.shape[-1]]
    if behind is not None:
        vh = lib.concatenate([vh[..., :rows], vh[..., rows:] @ lib.swapaxes(behind, -2, -1)], -1)
    return (u, s, vh), ~(s[..., -1] > s[..., 0] * np.finfo(s.dtype).eps * columns)  # also where there are NaNs


def _completed(lib: Any, x: Array, parts: Parts, full: bool) -> Parts:
    """Add, with `full`, the vectors that complete the bases: those of the plain decomposition."""
    if not full:
        return parts
    u, s, vh = parts
    all_u, _, all_vh = lib.linalg.svd(x, full_matrices=True)
    few = s.shape[-1]
    return lib.concatenate([u, all_u[..., few:]], -1), s, lib.concatenate([vh, all_vh[..., few:, :]], -2)
