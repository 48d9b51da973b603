"""A tensor's description of itself: shape, strides, storage, dtype, device."""

from __future__ import annotations

from typing import Any

from undertow._src.arrays.device.array import DeviceArray, lying
from undertow._src.base import tracer
from undertow._src.base.sites import warn
from undertow._src.engine.arguments import as_int, check_tensor, must_be, wrap_real_dim
from undertow._src.ops.public import public
from undertow._src.tensor.core import InferenceStorage, TensorCore, ndarray
from undertow._src.tensor.lazy_conj import origin
from undertow._src.types.devices import cpu, meta
from undertow._src.types.devices import device as Device
from undertow._src.types.dtypes import DTYPE_OF, SCALAR_DTYPE
from undertow._src.types.dtypes import dtype as Dtype
from undertow._src.types.dtypes import result_type as common_dtype
from undertow._src.types.layouts import CHANNELS_LAST, contiguous_format, memory_format, strided
from undertow._src.types.layouts import layout as Layout
from undertow._src.types.layouts import memory_format as MemoryFormat
from undertow._src.types.sizes import Size, size_of
from undertow.storage import UntypedStorage, address, is_foreign, offset_of, root_of, with_strides


def is_laid_out_as(array: Any, order: memory_format | None) -> bool:
    """Whether an array's strides are those of a memory format."""
    array = lying(array)
    axes = CHANNELS_LAST.get(order) if order is not None else None
    if axes is None:
        return array.flags.c_contiguous
    return array.ndim == len(axes) and array.transpose(axes).flags.c_contiguous


def format_of(array: Any) -> memory_format:
    """Return the memory format that an array's strides imply: channels last only if it alone fits."""
    steps, sizes = lying(array).strides, array.shape
    for order, axes in CHANNELS_LAST.items():
        if len(axes) == len(sizes) and steps[1] and 0 not in sizes:
            innermost_first = [(steps[axis], sizes[axis]) for axis in reversed(axes)]
            least = [step * size for step, size in innermost_first]
            grows = all(step >= below for (step, _), below in zip(innermost_first[1:], least))
            if grows and steps[0] > 0 and least[-2] != steps[1]:
                return order
    return contiguous_format


@public
def numel(input: Any) -> int:
    """How many elements a tensor has."""
    check_tensor(input, "numel")
    if tracer.current is not None:
        return tracer.current.sizes_shown((input._array.size,))[0]
    return input._array.size


@public
def is_floating_point(input: Any) -> bool:
    """Whether the dtype is a floating-point one."""
    check_tensor(input, "is_floating_point")
    return DTYPE_OF[input._array.dtype].is_floating_point


@public
def is_complex(input: Any) -> bool:
    """Whether the dtype is a complex one."""
    check_tensor(input, "is_complex")
    return input._array.dtype.kind == "c"


@public
def is_signed(input: Any) -> bool:
    """Whether the dtype can hold negative numbers."""
    check_tensor(input, "is_signed")
    return DTYPE_OF[input._array.dtype].is_signed


@public
def result_type(tensor1: Any, tensor2: Any) -> Dtype:
    """Return the dtype of arithmetic on two tensors or numbers."""
    ranks: tuple[list[Dtype], list[Dtype], list[Dtype]] = ([], [], [])
    for place, value in enumerate((tensor1, tensor2)):
        if isinstance(value, TensorCore):
            ranks[0 if value._array.ndim else 1].append(DTYPE_OF[value._array.dtype])
        elif isinstance(value, (bool, int, float, complex)):
            ranks[2].append(SCALAR_DTYPE[type(value)])
        else:
            raise must_be("Number", value, "result_type", f"tensor{place + 1}", place + 1)
    return common_dtype(*ranks)


@public
def is_same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape."""
    check_tensor(other, "is_same_size", "other")
    return input._array.shape == other._array.shape


@public
def is_inference(input: Any) -> bool:
    """Whether a tensor was made in inference mode."""
    return type(input._storage) is InferenceStorage


@public
def is_distributed(input: Any) -> bool:
    """Whether a tensor lives on several devices."""
    return False


@public
def get_device(input: Any) -> int:
    """Return the index of the device: -1 for the CPU, which has none."""
    return -1 if input.device is cpu else input.device.index or 0


def host_memory(tensor: Any) -> Any:
    """Return the array of a CPU tensor, copied to the host if a compiled program left it on a different device."""
    array = tensor._array
    if type(array) is DeviceArray and array.device is cpu:
        tensor._array = array = array.on_host()
    return array


class LayoutMethods(TensorCore):
    """Shape, strides, storage, dtype and device of a tensor."""

    __slots__ = ()

    @property
    def shape(self) -> Size:
        """The size along each dim."""
        if tracer.current is not None:
            return size_of(tracer.current.sizes_shown(self._array.shape))
        return size_of(self._array.shape)

    @property
    def ndim(self) -> int:
        """How many dims there are."""
        return self._array.ndim

    @property
    def dtype(self) -> Dtype:
        """The element type."""
        return DTYPE_OF[self._array.dtype]

    @property
    def device(self) -> Device:
        """Where the tensor lives."""
        array = self._array
        if type(array) is ndarray:
            return cpu
        if type(array) is DeviceArray:
            return array.device
        return meta if hasattr(array, "without_values") else getattr(array, "nominal", cpu)

    @property
    def layout(self) -> Layout:
        """How elements are stored: always strided."""
        return strided

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        size = self._array.size * self._array.itemsize
        return size if tracer.current is None else tracer.current.sizes_shown((size,))[0]

    @property
    def is_cpu(self) -> bool:
        return self.device is cpu

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def _never(self) -> bool:
        return False

    @property
    def is_meta(self) -> bool:
        """Whether the tensor has a shape and no values."""
        return hasattr(self._array, "without_values")

    is_sparse = property(_never)
    is_sparse_csr = property(_never)
    is_quantized = property(_never)
    is_mkldnn = property(_never)
    is_mps = property(_never)
    is_xpu = property(_never)
    is_xla = property(_never)
    is_ipu = property(_never)
    is_maia = property(_never)
    is_mtia = property(_never)
    is_vulkan = property(_never)
    is_nested = property(_never)

    numel, nelement = numel, numel
    is_floating_point, is_complex, is_signed = is_floating_point, is_complex, is_signed
    is_same_size, get_device, is_distributed = is_same_size, get_device, is_distributed

    @public
    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the size along one dim."""
        shape = self._array.shape
        if tracer.current is not None:
            shape = tracer.current.sizes_shown(shape)
        if dim is None:
            return size_of(shape)
        return shape[wrap_real_dim(as_int(dim, "size", "dim", 1), len(shape))]

    @public
    def dim(self) -> int:
        """Return the number of dims."""
        return self._array.ndim

    ndimension = dim

    @public
    def stride(self, dim: int | None = None) -> Any:
        """Return the strides in elements, or the stride of one dim."""
        array = lying(self._array)
        if not array.size and not any(array.strides) and not is_foreign(array) and not root_of(array).size:
            array = with_strides(array)
        steps = tuple([step // array.itemsize for step in array.strides])
        if tracer.current is not None:
            steps = tracer.current.sizes_shown(steps)
        if dim is None:
            return steps
        return steps[wrap_real_dim(as_int(dim, "stride", "dim", 1), len(steps))]

    @public
    def storage_offset(self) -> int:
        """Return the offset of the first element in the storage, in elements."""
        if tracer.current is not None and type(self._array) is DeviceArray:
            tracer.current.note_storage_offset(self._array)
        return offset_of(origin(lying(self._array)))

    @public
    def is_contiguous(self, memory_format: memory_format | None = contiguous_format) -> bool:
        """Whether the strides are those of a tensor without gaps, in order of the dims."""
        if not isinstance(memory_format, MemoryFormat):
            raise must_be("torch.memory_format", memory_format, "is_contiguous", "memory_format")
        return is_laid_out_as(self._array, memory_format)

    @public
    def dim_order(self, *, ambiguity_check: bool | list[Any] = False) -> tuple[int, ...]:
        """Return the dims, from the largest stride to the smallest.

        `ambiguity_check` refuses an order that is not the only one, unless exactly one of the memory formats in it
        fits.
        """
        formats = ambiguity_check if isinstance(ambiguity_check, list) else []
        if not isinstance(ambiguity_check, (bool, list)) or not all(
            isinstance(each, memory_format) for each in formats
        ):
            raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
        steps = self._array.strides
        tied = len(set(steps)) < len(steps)
        if ambiguity_check is not False:
            several = tied or 1 in self._array.shape
            if several and sum(self.is_contiguous(memory_format=each) for each in formats) != 1:
                raise RuntimeError(
                    "The tensor does not have unique dim order, or more than one of the memory formats fits it."
                )
            if ambiguity_check and (tied or 0 in steps):
                raise RuntimeError("The tensor does not have unique dim order.")
        return tuple(sorted(range(len(steps)), key=lambda dim: -steps[dim]))

    @public
    def element_size(self) -> int:
        """Return the number of bytes per element."""
        return self._array.itemsize

    @public
    def data_ptr(self) -> int:
        """Return the address of the first element; 0 if there is none."""
        memory = origin(host_memory(self) if tracer.current is None else self._array)
        if type(memory) is DeviceArray:
            return id(memory.buffer)  # JAX moves buffers: a number that all views of one have in common
        return address(memory) if memory.size else 0

    @public
    def untyped_storage(self) -> UntypedStorage:
        """Return the storage that the tensor is a view of."""
        memory = origin(host_memory(self))
        if type(memory) is not ndarray:
            raise RuntimeError(
                f"untyped_storage: a tensor on {self.device} has no buffer at a fixed address. Call .cpu() first."
            )
        return UntypedStorage(root_of(memory))

    @public
    def is_set_to(self, tensor: Any) -> bool:
        """Whether two tensors have the same storage, offset, shape and strides."""
        mine, theirs = host_memory(self), host_memory(tensor)
        return address(mine) == address(theirs) and mine.shape == theirs.shape and mine.strides == theirs.strides

    @public
    def is_shared(self) -> bool:
        """Whether other processes share the storage."""
        return False

    @public
    def share_memory_(self) -> Any:
        """Return the tensor unchanged: threads share storages anyway, and processes get copies."""
        return self

    @public
    def is_pinned(self, device: Any = None) -> bool:
        """Whether the storage is page-locked for an accelerator; there is none."""
        return False

    @public
    def pin_memory(self, device: Any = None) -> Any:
        raise RuntimeError("Cannot access accelerator device when none is available.")

    @public
    def dense_dim(self) -> int:
        return self._array.ndim

    @public
    def sparse_dim(self) -> int:
        return 0

    @property
    def name(self) -> None:
        return None

    @property
    def volatile(self) -> bool:
        """Always False; a no_grad block replaced it."""
        warn("volatile was removed (Variable.volatile is always False)")
        return False

    @volatile.setter
    def volatile(self, value: object) -> None:
        warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.")

    @property
    def _has_symbolic_sizes_strides(self) -> bool:
        return False

    @property
    def _grad_fn(self) -> Any:
        """The node that computed this tensor; set to None, it cuts the tensor from the graph."""
        return self.grad_fn

    @_grad_fn.setter
    def _grad_fn(self, value: None) -> None:
        if value is not None:
            raise RuntimeError("_grad_fn can be only set to None")
        self.detach_()

    @property
    def __cuda_array_interface__(self) -> Any:
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on non-CUDA tensor type: torch.{self.dtype.scalar_name}Tensor"
        )
