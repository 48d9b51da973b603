"""Where the names are at home that few programs use: each file is imported when one of its names is wanted."""

# The functions of `undertow`.
HOMES = {
    "undertow.amp.old_names": "get_autocast_cpu_dtype get_autocast_gpu_dtype is_autocast_cpu_enabled "
    "set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_gpu_dtype",
    "undertow.autograd.anomaly_mode": "set_anomaly_enabled",
    "undertow.control_flow": "cond while_loop",
    "undertow.demands": "_assert _assert_async _check _check_index _check_is_size _check_not_implemented "
    "_check_tensor_all _check_tensor_all_with _check_type _check_value _check_with _has_compatible_shallow_copy_type "
    "_running_with_deploy _shape_as_tensor set_vital",
    "undertow.dtypes": "bit bits16 bits1x8 bits2x4 bits4x2 bits8 float4_e2m1fn_x2 int1 int2 int3 int4 int5 int6 int7 "
    "quint2x4 quint4x2 uint1 uint2 uint3 uint4 uint5 uint6 uint7",
    "undertow.errors": "AcceleratorError OutOfMemoryError",
    "undertow.futures": "Future",
    "undertow.jit": "CompilationUnit ScriptFunction ScriptModule",
    "undertow.ops.draws": "_dirichlet_grad _sample_dirichlet _standard_gamma _standard_gamma_grad",
    "undertow.low_rank": "lobpcg pca_lowrank svd_lowrank",
    "undertow.ops.apart": "as_strided_scatter narrow_copy nonzero_static unsafe_chunk unsafe_split unsafe_split_with_sizes",
    "undertow.ops.coordinates": "histogramdd unravel_index",
    "undertow.compiler": "compile",
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
    "undertow.ops.spectrogram": "istft stft",
    "undertow.ops.view_copies": "alias_copy as_strided_copy detach_copy diagonal_copy expand_copy permute_copy select_copy "
    "slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy unfold_copy "
    "unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy",
    "undertow.overrides": "DisableTorchFunction DisableTorchFunctionSubclass",
    "undertow.process_settings": "compiled_with_cxx11_abi get_deterministic_debug_mode get_device_module has_lapack "
    "has_mkl has_openmp has_spectral is_vulkan_available set_deterministic_debug_mode set_flush_denormal",
    "undertow.qualities": "Event Stream Tag per_channel_affine per_channel_affine_float_qparams per_channel_symmetric "
    "per_tensor_affine per_tensor_symmetric qscheme",
    "undertow.serialization.file_reader": "PyTorchFileReader PyTorchFileWriter",
    "undertow.sparse": "hspmm smm spmm",
    "undertow.sparse.coo": "sparse_coo_tensor",
    "undertow.symbols": "SymBool SymFloat SymInt sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum",
    "undertow.tensor_rare": "_conj _conj_physical _is_all_true _is_any_true _is_zerotensor _neg_view",
    "undertow.typed_storage": "BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage "
    "ComplexFloatStorage DoubleStorage FloatStorage HalfStorage IntStorage LongStorage ShortStorage Storage TypedStorage",
    "undertow.utils.dlpack": "to_dlpack",
    "undertow.windows": "bartlett_window blackman_window hamming_window hann_window kaiser_window",
}

# The methods of `undertow.Tensor`.
METHODS = {
    "undertow.ops.apart": "as_strided_scatter narrow_copy nonzero_static sum_to_size unsafe_chunk unsafe_split "
    "unsafe_split_with_sizes",
    "undertow.ops.householder": "geqrf orgqr ormqr",
    "undertow.ops.lu": "lu lu_solve",
    "undertow.ops.removed": "eig lstsq solve symeig",
    "undertow.ops.spectrogram": "istft stft",
    "undertow.sparse": "sparse_mask smm to_sparse to_sparse_coo",
    "undertow.tensor_rare": "__long__ __nonzero__ _conj _conj_physical _dimI _dimV _indices _is_all_true _is_any_true "
    "_is_zerotensor _lazy_clone _neg_view _nnz _values coalesce const_data_ptr indices is_coalesced map2_ module_load "
    "record_stream reinforce resize resize_as values",
    "undertow.typed_storage": "_typed_storage storage storage_type",
}

# Modules of which few programs ask something.
MODULES = (
    "__config__ __future__ _dynamo _guards _jit_internal _ops _subclasses _tensor_str _utils _VF _vmap_internals classes "
    "compiler distributed functional futures fx hub jit library mps mtia multiprocessing onnx profiler quasirandom signal "
    "sparse torch_version xpu"
).split()
