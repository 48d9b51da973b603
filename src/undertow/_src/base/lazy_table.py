"""The home of each rarely used name: its file is imported when the name is first used."""

# The functions of `undertow`.
HOMES = {
    "undertow._compile": "_disable_dynamo",
    "undertow._lowrank": "lobpcg pca_lowrank svd_lowrank",
    "undertow._src.base.errors": "AcceleratorError OutOfMemoryError",
    "undertow._src.compat.control_flow": "cond while_loop",
    "undertow._src.compat.placeholders": "Event Stream Tag per_channel_affine per_channel_affine_float_qparams "
    "per_channel_symmetric per_tensor_affine per_tensor_symmetric qscheme",
    "undertow._src.compat.process_settings": "are_deterministic_algorithms_enabled compiled_with_cxx11_abi "
    "get_deterministic_debug_mode get_device_module get_float32_matmul_precision get_num_interop_threads "
    "get_num_threads has_lapack has_mkl has_openmp has_spectral is_deterministic_algorithms_warn_only_enabled "
    "is_vulkan_available is_warn_always_enabled set_deterministic_debug_mode set_float32_matmul_precision "
    "set_flush_denormal set_num_interop_threads set_num_threads set_warn_always use_deterministic_algorithms",
    "undertow._src.compat.torch_checks": "_assert _assert_async _check _check_index _check_is_size "
    "_check_not_implemented _check_tensor_all _check_tensor_all_with _check_type _check_value _check_with "
    "_has_compatible_shallow_copy_type _running_with_deploy _shape_as_tensor set_vital",
    "undertow._src.ops.activation": "celu celu_ hardshrink log_softmax prelu relu relu_ selu selu_ softmax threshold "
    "threshold_",
    "undertow._src.ops.addmm": "addbmm addmm addmv addmv_ addr baddbmm",
    "undertow._src.ops.arithmetic": "add div divide float_power floor_divide fmod mul multiply pow remainder rsub "
    "square square_ sub subtract true_divide",
    "undertow._src.ops.arrange": "clone constant_pad_nd diag diag_embed diagflat flip fliplr flipud repeat_interleave "
    "roll rot90 tile tril tril_indices triu triu_indices",
    "undertow._src.ops.broadcasting": "atleast_1d atleast_2d atleast_3d broadcast_shapes broadcast_tensors "
    "broadcast_to squeeze unsqueeze",
    "undertow._src.ops.clamp": "addcdiv addcmul clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip clip_ "
    "copysign lerp nan_to_num nan_to_num_ xlogy xlogy_",
    "undertow._src.ops.compare": "allclose bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift "
    "bitwise_xor eq equal ge greater greater_equal gt isclose isfinite isin isinf isnan isneginf isposinf isreal le "
    "less less_equal logical_and logical_not logical_or logical_xor lt ne not_equal signbit where",
    "undertow._src.ops.complex": "angle complex conj conj_physical conj_physical_ imag is_conj is_neg polar real "
    "resolve_conj resolve_neg view_as_complex view_as_real",
    "undertow._src.ops.conv": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "undertow._src.ops.coordinates": "histogramdd unravel_index",
    "undertow._src.ops.copied_parts": "as_strided_scatter narrow_copy nonzero_static unsafe_chunk unsafe_split "
    "unsafe_split_with_sizes",
    "undertow._src.ops.decompositions": "pinverse qr svd",
    "undertow._src.ops.differences": "gradient",
    "undertow._src.ops.distance": "bilinear cosine_similarity pairwise_distance pdist",
    "undertow._src.ops.draws": "_dirichlet_grad _sample_dirichlet _standard_gamma _standard_gamma_grad",
    "undertow._src.ops.dropout": "alpha_dropout_ dropout_ feature_alpha_dropout_ feature_dropout feature_dropout_ "
    "native_dropout rrelu rrelu_",
    "undertow._src.ops.einsum": "einsum",
    "undertow._src.ops.elementwise": "abs abs_ absolute acos acos_ acosh acosh_ arccos arccos_ arccosh arccosh_ arcsin "
    "arcsin_ arcsinh arcsinh_ arctan arctan2 arctan_ arctanh arctanh_ asin asin_ asinh asinh_ atan atan2 atan_ atanh "
    "atanh_ ceil ceil_ cos cos_ cosh cosh_ deg2rad deg2rad_ digamma erf erf_ erfc erfc_ erfinv exp exp2 exp2_ exp_ "
    "expm1 expm1_ fix fix_ floor floor_ fmax fmin frac frac_ frexp gcd gcd_ heaviside hypot i0 i0_ igamma igammac lcm "
    "lcm_ ldexp ldexp_ lgamma log log10 log10_ log1p log1p_ log2 log2_ log_ logaddexp logaddexp2 logit logit_ maximum "
    "minimum mvlgamma neg neg_ negative negative_ nextafter polygamma positive rad2deg rad2deg_ reciprocal reciprocal_ "
    "round round_ rsqrt rsqrt_ sgn sigmoid sigmoid_ sign sin sin_ sinc sinc_ sinh sinh_ sqrt sqrt_ tan tan_ tanh tanh_ "
    "trunc trunc_",
    "undertow._src.ops.embedding": "embedding_renorm_",
    "undertow._src.ops.factor": "det inverse logdet matrix_power slogdet",
    "undertow._src.ops.foreach": "_foreach_abs _foreach_abs_ _foreach_acos _foreach_acos_ _foreach_add _foreach_add_ "
    "_foreach_addcdiv _foreach_addcdiv_ _foreach_addcmul _foreach_addcmul_ _foreach_asin _foreach_asin_ _foreach_atan "
    "_foreach_atan_ _foreach_ceil _foreach_ceil_ _foreach_clamp_max _foreach_clamp_max_ _foreach_clamp_min "
    "_foreach_clamp_min_ _foreach_clone _foreach_copy_ _foreach_cos _foreach_cos_ _foreach_cosh _foreach_cosh_ "
    "_foreach_div _foreach_div_ _foreach_erf _foreach_erf_ _foreach_erfc _foreach_erfc_ _foreach_exp _foreach_exp_ "
    "_foreach_expm1 _foreach_expm1_ _foreach_floor _foreach_floor_ _foreach_frac _foreach_frac_ _foreach_lerp "
    "_foreach_lerp_ _foreach_lgamma _foreach_lgamma_ _foreach_log _foreach_log10 _foreach_log10_ _foreach_log1p "
    "_foreach_log1p_ _foreach_log2 _foreach_log2_ _foreach_log_ _foreach_max _foreach_maximum _foreach_maximum_ "
    "_foreach_minimum _foreach_minimum_ _foreach_mul _foreach_mul_ _foreach_neg _foreach_neg_ _foreach_norm "
    "_foreach_pow _foreach_pow_ _foreach_reciprocal _foreach_reciprocal_ _foreach_round _foreach_round_ _foreach_rsqrt "
    "_foreach_rsqrt_ _foreach_sigmoid _foreach_sigmoid_ _foreach_sign _foreach_sign_ _foreach_sin _foreach_sin_ "
    "_foreach_sinh _foreach_sinh_ _foreach_sqrt _foreach_sqrt_ _foreach_sub _foreach_sub_ _foreach_tan _foreach_tan_ "
    "_foreach_tanh _foreach_tanh_ _foreach_trunc _foreach_trunc_ _foreach_zero_",
    "undertow._src.ops.householder": "geqrf orgqr ormqr",
    "undertow._src.ops.index": "diagonal_scatter index_add index_copy index_fill index_reduce index_select put "
    "select_scatter slice_scatter take take_along_dim",
    "undertow._src.ops.indexing": "index_put index_put_",
    "undertow._src.ops.join": "block_diag cartesian_prod cat column_stack combinations concat concatenate dstack "
    "hstack meshgrid row_stack stack vstack",
    "undertow._src.ops.legacy_norms": "frobenius_norm norm_except_dim nuclear_norm",
    "undertow._src.ops.lu": "lu lu_solve lu_unpack",
    "undertow._src.ops.masks": "argwhere masked_scatter masked_select nonzero",
    "undertow._src.ops.matmul": "bmm dot ger matmul mm mv outer vdot",
    "undertow._src.ops.native": "affine_grid_generator binary_cross_entropy_with_logits conv_tbc convolution "
    "cosine_embedding_loss ctc_loss embedding_bag grid_sampler grid_sampler_2d grid_sampler_3d hinge_embedding_loss "
    "kl_div margin_ranking_loss native_batch_norm native_group_norm poisson_nll_loss triplet_margin_loss",
    "undertow._src.ops.norm": "group_norm layer_norm native_layer_norm rms_norm",
    "undertow._src.ops.norms": "cdist dist norm renorm",
    "undertow._src.ops.pool": "max_pool1d max_pool1d_with_indices max_pool2d max_pool3d",
    "undertow._src.ops.pool_average": "adaptive_avg_pool1d avg_pool1d",
    "undertow._src.ops.products": "chain_matmul cross inner kron tensordot trace vander",
    "undertow._src.ops.recurrent": "gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell",
    "undertow._src.ops.reduce": "all amax amin aminmax any argmax argmin count_nonzero logsumexp max mean min nanmean "
    "nansum prod sum",
    "undertow._src.ops.removed": "eig lstsq matrix_rank solve symeig",
    "undertow._src.ops.resize": "channel_shuffle native_channel_shuffle pixel_shuffle pixel_unshuffle",
    "undertow._src.ops.scan": "cummax cummin cumprod cumsum logcumsumexp",
    "undertow._src.ops.scatter": "gather scatter scatter_add scatter_reduce",
    "undertow._src.ops.segments": "segment_reduce",
    "undertow._src.ops.shape": "adjoint flatten moveaxis movedim permute ravel reshape swapaxes swapdims t transpose "
    "unflatten",
    "undertow._src.ops.slicing": "as_strided as_strided_ chunk diagonal dsplit hsplit narrow select split "
    "split_with_sizes tensor_split unbind vsplit",
    "undertow._src.ops.sort": "argsort bincount bucketize histc histogram kthvalue median mode msort nanmedian "
    "searchsorted sort topk unique unique_consecutive",
    "undertow._src.ops.spectrogram": "istft stft",
    "undertow._src.ops.statistics": "corrcoef cov cumulative_trapezoid diff nanquantile quantile std std_mean "
    "trapezoid trapz var var_mean",
    "undertow._src.ops.triangular": "cholesky cholesky_inverse cholesky_solve triangular_solve",
    "undertow._src.ops.view_copies": "alias_copy as_strided_copy detach_copy diagonal_copy expand_copy permute_copy "
    "select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy "
    "unfold_copy unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy",
    "undertow._src.ops.writing": "fill fill_ masked_fill resize_as_ zero_",
    "undertow._src.overrides.torch_function": "DisableTorchFunction DisableTorchFunctionSubclass",
    "undertow._src.tensor.methods.random": "bernoulli binomial multinomial poisson",
    "undertow._src.tensor.methods.rare": "_conj _conj_physical _is_all_true _is_any_true _is_zerotensor _neg_view",
    "undertow._src.tensor.ranges": "arange linspace logspace range",
    "undertow._src.tensor.tensor_types": "BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor "
    "HalfTensor IntTensor LongTensor ShortTensor is_tensor set_default_tensor_type typename",
    "undertow._src.tensor.typed_storage": "BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage "
    "ComplexFloatStorage DoubleStorage FloatStorage HalfStorage IntStorage LongStorage ShortStorage Storage "
    "TypedStorage",
    "undertow._src.tensor.windows": "bartlett_window blackman_window hamming_window hann_window kaiser_window",
    "undertow._src.types.dtypes": "bit bits16 bits1x8 bits2x4 bits4x2 bits8 float4_e2m1fn_x2 int1 int2 int3 int4 int5 "
    "int6 int7 quint2x4 quint4x2 uint1 uint2 uint3 uint4 uint5 uint6 uint7",
    "undertow._src.types.symbols": "SymBool SymFloat SymInt sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt "
    "sym_sum",
    "undertow.amp": "GradScaler autocast",
    "undertow.amp.casting": "autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache "
    "get_autocast_dtype is_autocast_cache_enabled is_autocast_enabled set_autocast_cache_enabled set_autocast_dtype "
    "set_autocast_enabled",
    "undertow.amp.old_names": "get_autocast_cpu_dtype get_autocast_gpu_dtype is_autocast_cpu_enabled "
    "set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_gpu_dtype",
    "undertow.autograd.anomaly_mode": "set_anomaly_enabled",
    "undertow.compiler": "compile",
    "undertow.func": "vmap",
    "undertow.futures": "Future",
    "undertow.jit": "CompilationUnit ScriptFunction ScriptModule",
    "undertow.pretend": "pretend_torch",
    "undertow.random": "Generator default_generator get_rng_state initial_seed manual_seed normal rand rand_like "
    "randint randint_like randn randn_like randperm seed set_rng_state",
    "undertow.serialization": "load save",
    "undertow.serialization.file_reader": "PyTorchFileReader PyTorchFileWriter",
    "undertow.sparse": "dsmm hsmm hspmm smm spmm",
    "undertow.sparse.coo": "sparse_coo_tensor",
    "undertow.utils.dlpack": "to_dlpack",
}

# Names that differ from the name at home.
RENAMED = {
    "adaptive_max_pool1d": "undertow._src.ops.pool_average:adaptive_max_pool1d_with_indices",
    "alpha_dropout": "undertow._src.ops.dropout:torch_alpha_dropout",
    "batch_norm": "undertow._src.ops.norm:torch_batch_norm",
    "dropout": "undertow._src.ops.dropout:torch_dropout",
    "embedding": "undertow._src.ops.embedding:torch_embedding",
    "feature_alpha_dropout": "undertow._src.ops.dropout:torch_feature_alpha_dropout",
    "instance_norm": "undertow._src.ops.norm:torch_instance_norm",
    "matrix_exp": "undertow._src.ops.decompositions:linalg_matrix_exp",
}

# The methods of `undertow.Tensor`: functions of a module, or members of a `...Methods` class.
METHODS = {
    "undertow._src.ops.activation:ActivationMethods": "hardshrink log_softmax prelu relu relu_ softmax",
    "undertow._src.ops.addmm:AddmmMethods": "addbmm addbmm_ addmm addmm_ addmv addmv_ addr addr_ baddbmm baddbmm_",
    "undertow._src.ops.arithmetic:ArithmeticMethods": "__add__ __div__ __floordiv__ __iadd__ __idiv__ __ifloordiv__ "
    "__imod__ __imul__ __ipow__ __isub__ __itruediv__ __mod__ __mul__ __pow__ __radd__ __rdiv__ __rfloordiv__ __rmod__ "
    "__rmul__ __rpow__ __rsub__ __rtruediv__ __sub__ __truediv__ add add_ div div_ divide divide_ float_power "
    "float_power_ floor_divide floor_divide_ fmod fmod_ mul mul_ multiply multiply_ pow pow_ remainder remainder_ "
    "square square_ sub sub_ subtract subtract_ true_divide true_divide_",
    "undertow._src.ops.arrange:ArrangeMethods": "clone contiguous diag diag_embed diagflat flip fliplr flipud repeat "
    "repeat_interleave roll rot90 tile tril tril_ triu triu_",
    "undertow._src.ops.broadcasting:StretchMethods": "broadcast_to expand expand_as squeeze squeeze_ unsqueeze "
    "unsqueeze_",
    "undertow._src.ops.clamp:ClampMethods": "addcdiv addcdiv_ addcmul addcmul_ clamp clamp_ clamp_max clamp_max_ "
    "clamp_min clamp_min_ clip clip_ copysign copysign_ lerp lerp_ nan_to_num nan_to_num_ xlogy xlogy_",
    "undertow._src.ops.compare:CompareMethods": "__and__ __eq__ __ge__ __gt__ __iand__ __ilshift__ __invert__ __ior__ "
    "__irshift__ __ixor__ __le__ __lshift__ __lt__ __ne__ __or__ __rand__ __rlshift__ __ror__ __rrshift__ __rshift__ "
    "__rxor__ __xor__ allclose bitwise_and bitwise_and_ bitwise_left_shift bitwise_left_shift_ bitwise_not "
    "bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift bitwise_right_shift_ bitwise_xor bitwise_xor_ eq eq_ "
    "equal ge ge_ greater greater_ greater_equal greater_equal_ gt gt_ isclose isfinite isinf isnan isneginf isposinf "
    "isreal le le_ less less_ less_equal less_equal_ logical_and logical_and_ logical_not logical_not_ logical_or "
    "logical_or_ logical_xor logical_xor_ lt lt_ ne ne_ not_equal not_equal_ signbit where",
    "undertow._src.ops.complex:ComplexMethods": "angle conj conj_physical conj_physical_ imag is_conj is_neg real "
    "resolve_conj resolve_neg",
    "undertow._src.ops.copied_parts": "as_strided_scatter narrow_copy nonzero_static sum_to_size unsafe_chunk "
    "unsafe_split unsafe_split_with_sizes",
    "undertow._src.ops.decompositions:DecompositionMethods": "matrix_exp pinverse qr svd",
    "undertow._src.ops.elementwise:ElementwiseMethods": "__abs__ __neg__ __pos__ abs abs_ absolute absolute_ acos "
    "acos_ acosh acosh_ arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan2 arctan2_ "
    "arctan_ arctanh arctanh_ asin asin_ asinh asinh_ atan atan2 atan2_ atan_ atanh atanh_ ceil ceil_ cos cos_ cosh "
    "cosh_ deg2rad deg2rad_ digamma digamma_ erf erf_ erfc erfc_ erfinv erfinv_ exp exp2 exp2_ exp_ expm1 expm1_ fix "
    "fix_ floor floor_ fmax fmin frac frac_ frexp gcd gcd_ heaviside heaviside_ hypot hypot_ i0 i0_ igamma igamma_ "
    "igammac igammac_ lcm lcm_ ldexp ldexp_ lgamma lgamma_ log log10 log10_ log1p log1p_ log2 log2_ log_ logaddexp "
    "logaddexp2 logit logit_ maximum minimum mvlgamma mvlgamma_ neg neg_ negative negative_ nextafter nextafter_ "
    "polygamma polygamma_ positive rad2deg rad2deg_ reciprocal reciprocal_ round round_ rsqrt rsqrt_ sgn sgn_ sigmoid "
    "sigmoid_ sign sign_ sin sin_ sinc sinc_ sinh sinh_ sqrt sqrt_ tan tan_ tanh tanh_ trunc trunc_",
    "undertow._src.ops.factor:FactorMethods": "det inverse logdet matrix_power slogdet",
    "undertow._src.ops.householder": "geqrf orgqr ormqr",
    "undertow._src.ops.index:IndexMethods": "diagonal_scatter index_add index_add_ index_copy index_copy_ index_fill "
    "index_fill_ index_reduce index_reduce_ index_select put put_ select_scatter slice_scatter take take_along_dim",
    "undertow._src.ops.indexing:IndexingMethods": "__delitem__ __getitem__ __setitem__ index_put index_put_",
    "undertow._src.ops.lu": "lu lu_solve",
    "undertow._src.ops.masks:MaskMethods": "argwhere masked_scatter masked_scatter_ masked_select nonzero",
    "undertow._src.ops.matmul:MatmulMethods": "__matmul__ __rmatmul__ bmm dot ger matmul mm mv outer vdot",
    "undertow._src.ops.norms:NormMethods": "dist norm renorm renorm_",
    "undertow._src.ops.products:ProductMethods": "cross inner kron trace",
    "undertow._src.ops.reduce:ReduceMethods": "all amax amin aminmax any argmax argmin count_nonzero logsumexp max "
    "mean min nanmean nansum prod sum",
    "undertow._src.ops.removed": "eig lstsq solve symeig",
    "undertow._src.ops.scan:ScanMethods": "cummax cummin cumprod cumprod_ cumsum cumsum_ logcumsumexp",
    "undertow._src.ops.scatter:ScatterMethods": "gather scatter scatter_ scatter_add scatter_add_ scatter_reduce "
    "scatter_reduce_",
    "undertow._src.ops.shape:ShapeMethods": "H T adjoint flatten mH mT moveaxis movedim permute ravel reshape "
    "reshape_as swapaxes swapaxes_ swapdims swapdims_ t t_ transpose transpose_ unflatten view view_as",
    "undertow._src.ops.slicing:PartMethods": "as_strided as_strided_ chunk diagonal dsplit hsplit narrow select split "
    "split_with_sizes tensor_split unbind unfold vsplit",
    "undertow._src.ops.sort:SortMethods": "argsort bincount histc histogram kthvalue median mode msort nanmedian sort "
    "topk unique unique_consecutive",
    "undertow._src.ops.spectrogram": "istft stft",
    "undertow._src.ops.statistics:StatisticsMethods": "corrcoef cov diff nanquantile quantile std var",
    "undertow._src.ops.triangular:TriangularMethods": "cholesky cholesky_inverse cholesky_solve triangular_solve",
    "undertow._src.ops.writing:WritingMethods": "copy_ fill_ fill_diagonal_ masked_fill masked_fill_ resize_ "
    "resize_as_ set_ zero_",
    "undertow._src.tensor.methods.random:RandomMethods": "bernoulli bernoulli_ cauchy_ exponential_ geometric_ "
    "log_normal_ multinomial normal_ random_ uniform_",
    "undertow._src.tensor.methods.rare": "__long__ __nonzero__ _cdata _conj _conj_physical _dimI _dimV _indices "
    "_is_all_true _is_any_true _rev_view_func_unsafe _use_count _view_func _view_func_unsafe _is_zerotensor "
    "_lazy_clone _neg_view _nnz _values coalesce const_data_ptr indices is_coalesced map2_ module_load record_stream "
    "reinforce resize resize_as storage_type values",
    "undertow._src.tensor.typed_storage": "_typed_storage storage",
    "undertow.sparse": "sparse_mask smm to_sparse to_sparse_coo",
}

# Modules that few programs use.
MODULES = (
    "_C _VF __config__ __future__ _dynamo _guards _jit_internal _logging _ops _subclasses _tensor_str _utils "
    "_vmap_internals accelerator amp backends classes compiler cpu cuda distributed distributions fft func functional "
    "futures fx hub jit library linalg masked mps mtia multiprocessing onnx ops optim overrides pretend profiler "
    "quasirandom random return_types serialization signal sparse special testing torch_version types utils version "
    "why xpu"
).split()

# Methods of PyTorch's tensors that undertow lacks; the error names the missing one.
LACKING_METHODS = (
    "ccol_indices chalf col_indices crow_indices dequantize hash_tensor index int_repr ipu mtia q_per_channel_axis "
    "q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point qscheme resize_as_sparse_ row_indices "
    "slice_inverse sparse_resize_ sparse_resize_and_clear_ sspaddmm to_mkldnn to_padded_tensor to_sparse_bsc "
    "to_sparse_bsr to_sparse_csc to_sparse_csr"
)
