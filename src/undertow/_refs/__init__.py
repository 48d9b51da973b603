"""`torch._refs`: PyTorch's reference implementations; here they are the functions themselves."""

from undertow._src.compat.name_tables import mirrored

_NAMES = """
    T abs abs_ acos acos_ acosh acosh_ add add_ addcdiv addcdiv_ addcmul addcmul_ addr alias_copy all allclose amax
    amin any arange as_strided as_strided_copy as_strided_scatter asin asin_ asinh asinh_ atan atan2 atan2_ atan_
    atanh atanh_ atleast_1d atleast_2d atleast_3d bitwise_and bitwise_and_ bitwise_left_shift bitwise_left_shift_
    bitwise_not bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift bitwise_right_shift_ bitwise_xor
    bitwise_xor_ block_diag broadcast_shapes broadcast_tensors broadcast_to bucketize cat cauchy cauchy_ ceil ceil_
    chunk clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clone column_stack conj conj_physical
    conj_physical_ constant_pad_nd contiguous copysign copysign_ cos cos_ cosh cosh_ count_nonzero cumprod cumprod_
    cumsum cumsum_ deg2rad deg2rad_ diag diag_embed diagonal diagonal_copy diagonal_scatter digamma digamma_ div
    div_ dot dsplit dstack empty empty_like empty_permuted empty_strided eq eq_ equal erf erf_ erfc erfc_ erfinv
    erfinv_ exp exp2 exp2_ exp_ expand expand_as expand_copy expm1 expm1_ exponential exponential_ eye fill fill_
    flatten flip fliplr flipud float_power float_power_ floor floor_ floor_divide floor_divide_ fmax fmin fmod fmod_
    frac frac_ full full_like gcd gcd_ ge ge_ geometric geometric_ gt gt_ heaviside heaviside_ hsplit hstack hypot
    hypot_ i0 i0_ igamma igamma_ igammac igammac_ imag index_add index_copy index_copy_ index_fill index_fill_
    index_select is_complex isclose isfinite isinf isnan isneginf isposinf isreal istft item lcm lcm_ le le_ lerp
    lerp_ lgamma lgamma_ linspace log log10 log10_ log1p log1p_ log2 log2_ log_ log_normal log_normal_ log_softmax
    logaddexp logaddexp2 logical_and logical_and_ logical_not logical_not_ logical_or logical_or_ logical_xor
    logical_xor_ logspace logsumexp lt lt_ masked_fill masked_fill_ maximum mean meshgrid minimum movedim mul mul_
    mvlgamma mvlgamma_ nan_to_num nan_to_num_ narrow narrow_copy native_group_norm native_layer_norm ne ne_ neg neg_
    new_empty new_empty_strided new_full new_ones new_zeros nextafter nextafter_ norm normal ones ones_like permute
    permute_copy positive pow pow_ prod rad2deg rad2deg_ randn ravel real reciprocal reciprocal_ remainder
    remainder_ renorm repeat reshape reshape_as roll rot90 round rsqrt rsqrt_ rsub scalar_tensor sgn sgn_ sigmoid
    sigmoid_ sign sign_ signbit sin sin_ sinc sinc_ sinh sinh_ softmax split_with_sizes sqrt sqrt_ square square_
    squeeze squeeze_copy stack std std_mean stft sub sub_ sum sum_to_size t t_copy take_along_dim tan tan_ tanh
    tanh_ tensor_split to trace transpose transpose_copy tril tril_ tril_indices triu triu_ triu_indices true_divide
    true_divide_ trunc trunc_ unbind unbind_copy unflatten unfold unfold_copy unsqueeze unsqueeze_copy var var_mean
    vdot view view_as view_as_complex view_copy vsplit vstack where xlogy xlogy_ zero_ zeros zeros_like
"""
globals().update(mirrored(__name__, "undertow", _NAMES))
