"""The array functions that rules may use, by family: what each namespace (NumPy, tensors, JAX) has to offer.

NumPy's own names mean what they mean there, with the same arguments; the rest is said here.
"""

from __future__ import annotations

SHAPE = {
    "alias": "the same array as a value of its own",
    "reshape": "another shape for the same elements; a view where memory allows it",
    "broadcast_to": "stretched along axes of length 1 and new leading axes",
    "sum_to_shape": "undoes broadcast_to: sums over the axes that were stretched",
    "transpose": "axes in another order, or reversed",
    "swapaxes": "two axes exchanged",
    "moveaxis": "one axis at another place",
    "expand_dims": "a new axis of length 1",
    "squeeze": "without axes of length 1",
    "select": "(x, axis, index) one index along an axis, which goes away",
    "slice_along": "(x, axis, start, stop, step) a range of one axis",
    "diagonal": "the diagonal of two axes as a new last axis",
    "windows": "(x, axis, size, step) windows along an axis; positions within one become the last axis",
    "as_strided": "(x, size, stride, offset, layout) what strides show of a memory in which x lies as layout says",
    "select_backward": "(g, shape, axis, index) g at that index among zeros",
    "slice_backward": "(g, shape, axis, start, stop, step) g in that range among zeros",
    "diagonal_backward": "(g, shape, offset, axis1, axis2) g on that diagonal among zeros",
    "windows_backward": "(g, shape, axis, size, step) windows added back where they came from",
    "as_strided_backward": "(g, size, stride, offset, layout) the adjoint of as_strided",
    "copy": "a copy in the same memory order",
    "contiguous": "a copy in C order",
    "cast": "(x, dtype) a fresh copy in another dtype",
    "astype": "(x, dtype) x itself if it has the dtype, else a copy",
    "concatenate": "arrays one after the other along an axis",
    "stack": "arrays side by side along a new axis",
    "tile": "(x, repeats) laid out side by side, one number per axis of the result",
    "flip": "reversed along axes",
    "roll": "moved along axes, what falls off coming back in",
    "rot90": "(x, k, axes) turned k times",
    "tril": "lower triangles",
    "triu": "upper triangles",
    "diag_embed": "(x, offset, axis1, axis2) the last axis as the diagonal of two new ones",
    "pad": "(x, widths, value) framed by a value; negative widths crop",
    "zeros": "(shape, dtype)",
    "ones": "(shape, dtype)",
    "zeros_like": "zeros in the shape and dtype of x",
    "ones_like": "ones in the shape and dtype of x",
    "full_like": "(x, value) one value in the shape and dtype of x",
}

INDEX = {
    "index": "(x, *indices) x[indices]; None keeps an axis whole, a mask spans as many axes as it has",
    "index_put": "(x, values, *indices, accumulate) x with [indices] = values, or += with repetitions counted",
    "index_backward": "(g, shape, *indices) the adjoint of index",
    "index_select": "(x, axis, index) the slices of an axis that an index names",
    "index_add": "(x, axis, index, source) slices of source added to those slices",
    "index_copy": "(x, axis, index, source) those slices replaced by slices of source",
    "index_fill": "(x, axis, index, value) those slices replaced by a value",
    "gather": "(x, axis, index) out[i][j] = x[index[i][j]][j] for axis 0",
    "scatter": "(x, axis, index, source) x with x[index[i][j]][j] = source[i][j] for axis 0",
    "scatter_value": "(x, axis, index, value) the same with one value",
    "scatter_add": "(x, axis, index, source) the same with += and repetitions counted",
    "scatter_reduce": "(x, axis, index, source, reduce, include_self) the same with sum, prod, mean, amax or amin",
    "take_flat": "(x, index) elements by their place in x read row by row",
    "put_flat": "(x, index, source, accumulate) elements written (or added) to such places",
    "masked_select": "(x, mask) the elements where a mask is true, as a vector",
    "masked_scatter": "(x, mask, source) x with source's first elements where a mask is true",
    "masked_fill": "(x, mask, value) x with a value where a mask is true",
}

VOCABULARY = {**SHAPE, **INDEX}
