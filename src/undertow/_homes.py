"""Where the names are at home that few programs use: each file is imported when one of its names is wanted."""

# The functions of `undertow`.
HOMES = {
    "undertow.ops.draws": "_dirichlet_grad _sample_dirichlet _standard_gamma _standard_gamma_grad",
    "undertow.low_rank": "pca_lowrank svd_lowrank",
    "undertow.ops.apart": "as_strided_scatter narrow_copy nonzero_static unsafe_chunk unsafe_split unsafe_split_with_sizes",
    "undertow.ops.coordinates": "histogramdd unravel_index",
    "undertow.ops.differences": "gradient",
    "undertow.ops.householder": "geqrf orgqr ormqr",
    "undertow.ops.lu": "lu lu_solve lu_unpack",
    "undertow.ops.native": "affine_grid_generator binary_cross_entropy_with_logits conv_tbc convolution "
    "cosine_embedding_loss embedding_bag grid_sampler grid_sampler_2d grid_sampler_3d hinge_embedding_loss kl_div "
    "margin_ranking_loss native_batch_norm native_group_norm poisson_nll_loss triplet_margin_loss",
    "undertow.ops.norms_of_old": "frobenius_norm norm_except_dim nuclear_norm",
    "undertow.ops.recurrent": "gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell",
    "undertow.ops.removed": "eig lstsq matrix_rank solve symeig",
    "undertow.ops.segments": "segment_reduce",
    "undertow.ops.view_copies": "alias_copy as_strided_copy detach_copy diagonal_copy expand_copy permute_copy select_copy "
    "slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy unfold_copy "
    "unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy",
    "undertow.windows": "bartlett_window blackman_window hamming_window hann_window kaiser_window",
}

# The methods of `undertow.Tensor`.
METHODS = {
    "undertow.ops.apart": "as_strided_scatter narrow_copy nonzero_static sum_to_size unsafe_chunk unsafe_split "
    "unsafe_split_with_sizes",
    "undertow.ops.householder": "geqrf orgqr ormqr",
    "undertow.ops.lu": "lu lu_solve",
    "undertow.ops.removed": "eig lstsq solve symeig",
}

# Modules of which few programs ask something.
MODULES = (
    "__config__ _dynamo _jit_internal compiler distributed functional futures fx hub jit mps mtia multiprocessing onnx "
    "profiler xpu"
).split()
