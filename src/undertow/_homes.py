"""Where the names of `undertow` are at home that few programs use: each file is imported when a name of it is wanted."""

HOMES = {
    "undertow.ops.coordinates": "histogramdd unravel_index",
    "undertow.ops.differences": "gradient",
    "undertow.ops.view_copies": "alias_copy as_strided_copy detach_copy diagonal_copy expand_copy permute_copy select_copy "
    "slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy unfold_copy "
    "unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy",
}

# Modules of which few programs ask something.
MODULES = (
    "__config__ _dynamo _jit_internal compiler distributed functional futures fx hub jit mps mtia multiprocessing onnx "
    "profiler xpu"
).split()
