"""Styles of tensor parallelism: how a layer's parameters are split, and the placements of its inputs and outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

from undertow._src.distributed.dtensor.dtensor import DTensor
from undertow._src.distributed.dtensor.making import distribute_module, distribute_tensor
from undertow._src.distributed.dtensor.placements import Placement, Replicate, Shard
from undertow._src.tensor.core import TensorCore
from undertow.nn.modules.linear import Linear
from undertow.nn.modules.module import Module
from undertow.nn.modules.sparse import Embedding
from undertow.nn.parameter import Parameter

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput",
    "RowwiseParallel", "SequenceParallel",
]  # fmt: skip

Layout = Placement | None
Layouts = Layout | tuple[Layout, ...]


class ParallelStyle(ABC):
    """How `parallelize_module` splits a module and places its inputs and outputs."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: Any) -> Module: ...


class _Layer(ParallelStyle):
    """A layer with one input and one output."""

    def __init__(self, given: Placement, wanted: Placement, returned: Placement, use_local_output: bool) -> None:
        self.input_layouts, self.desired_input_layouts = (given,), (wanted,)
        self.output_layouts, self.use_local_output = (returned,), use_local_output

    def placement(self, layer: Module, name: str) -> Placement:
        """Return the placement of a parameter."""
        return Replicate()

    def _split(self, name: str, layer: Module, mesh: Any) -> None:
        for key, param in list(layer._parameters.items()):
            if param is not None:
                whole = distribute_tensor(param, mesh, [self.placement(layer, key)], src_data_rank=self.src_data_rank)
                layer.register_parameter(key, Parameter(whole, param.requires_grad))

    def _inputs(self, layer: Any, inputs: Any, mesh: Any) -> Any:
        return _moved(inputs[0], mesh, self.input_layouts, self.desired_input_layouts), *inputs[1:]

    def _outputs(self, layer: Any, output: Any, mesh: Any) -> Any:
        return _returned(output, self.output_layouts, self.use_local_output)

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        return distribute_module(module, device_mesh, self._split, self._inputs, self._outputs)


class ColwiseParallel(_Layer):
    """A Linear or Embedding layer whose output features are split."""

    def __init__(
        self, *, input_layouts: Layout = None, output_layouts: Layout = None, use_local_output: bool = True
    ) -> None:
        super().__init__(input_layouts or Replicate(), Replicate(), output_layouts or Shard(-1), use_local_output)

    def placement(self, layer: Module, name: str) -> Placement:
        return Shard(1 if isinstance(layer, Embedding) else 0)

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        _check(module, self)
        return super()._apply(module, device_mesh)


class RowwiseParallel(_Layer):
    """A Linear layer whose input features are split, or an Embedding layer whose rows are."""

    def __init__(
        self, *, input_layouts: Layout = None, output_layouts: Layout = None, use_local_output: bool = True
    ) -> None:
        super().__init__(input_layouts or Shard(-1), Shard(-1), output_layouts or Replicate(), use_local_output)

    def placement(self, layer: Module, name: str) -> Placement:
        if isinstance(layer, Embedding):
            return Shard(0)
        return Replicate() if name == "bias" else Shard(1)

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        _check(module, self)
        self.desired_input_layouts = (Replicate() if isinstance(module, Embedding) else Shard(-1),)
        return super()._apply(module, device_mesh)


class SequenceParallel(_Layer):
    """A layer such as LayerNorm or Dropout, on inputs that are split along the sequence."""

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        place = Shard(sequence_dim)
        super().__init__(place, place, place, use_local_output)
        self.sequence_sharding = (place,)

    def _outputs(self, layer: Any, output: Any, mesh: Any) -> Any:
        return output.to_local() if self.use_local_output else output


class PrepareModuleInput(ParallelStyle):
    """Convert a module's inputs to distributed tensors under the wanted placements."""

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts, self.desired_input_layouts = _tuple(input_layouts), _tuple(desired_input_layouts)
        self.use_local_output = use_local_output
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise AssertionError("desired module inputs should not be None!")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise AssertionError("input_layouts and desired_input_layouts should have same length!")

    def _one(self, value: Any, mesh: Any, given: Layout, wanted: Layout) -> Any:
        if given is None:
            return value
        moved = _moved(value, mesh, (given,), (given if wanted is None else wanted,))
        return moved.to_local() if self.use_local_output else moved

    def _prepare(self, mesh: Any, module: Module, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.input_layouts is not None:
            if len(inputs) != len(self.input_layouts):
                raise ValueError("module inputs and input_layouts should have same length!")
            wanted = self.desired_input_layouts or ()
            inputs = tuple([self._one(*each) for each in _rows(inputs, mesh, self.input_layouts, wanted)])
        for key, given in self.input_kwarg_layouts.items():
            if key in kwargs:
                kwargs[key] = self._one(kwargs[key], mesh, given, self.desired_input_kwarg_layouts.get(key))
        return inputs, kwargs

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        module.register_forward_pre_hook(partial(self._prepare, device_mesh), with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Convert a module's outputs to the wanted placements."""

    def __init__(
        self, *, output_layouts: Layouts, desired_output_layouts: Layouts, use_local_output: bool = True
    ) -> None:
        self.output_layouts = _tuple(output_layouts) or (None,)
        self.desired_output_layouts = _tuple(desired_output_layouts) or (None,)
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")

    def _convert(self, mesh: Any, module: Module, inputs: Any, outputs: Any) -> Any:
        several = isinstance(outputs, (tuple, list))
        values = outputs if several else (outputs,)
        if len(values) != len(self.output_layouts):
            raise ValueError("module outputs and output_layouts should have same length!")
        found = []
        for value, _, given, wanted in _rows(values, mesh, self.output_layouts, self.desired_output_layouts):
            if given is not None:
                value = _moved(value, mesh, (given,), (given,))
                value = _returned(value, (given if wanted is None else wanted,), self.use_local_output)
            found.append(value)
        return tuple(found) if several else found[0]

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        module.register_forward_hook(partial(self._convert, device_mesh))
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Convert a module's inputs and its outputs."""

    def __init__(
        self, *, use_local_input: bool = False, use_local_output: bool = True, output_layouts: Layouts,
        desired_output_layouts: Layouts, **inputs: Any,
    ) -> None:  # fmt: skip
        self.prepare_module_input = PrepareModuleInput(use_local_output=use_local_input, **inputs)
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        return self.prepare_module_output._apply(self.prepare_module_input._apply(module, device_mesh), device_mesh)


def _check(module: Module, style: ParallelStyle) -> None:
    if not isinstance(module, (Linear, Embedding)):
        raise NotImplementedError(
            f"{type(style).__name__} currently only support nn.Linear and nn.Embedding! Got {type(module).__name__}."
        )


def _tuple(layouts: Layouts) -> tuple[Layout, ...] | None:
    return (layouts,) if isinstance(layouts, Placement) else layouts


def _rows(values: Sequence[Any], mesh: Any, given: Sequence[Any], wanted: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [(value, mesh, one, other) for value, one, other in zip(values, given, wanted, strict=True)]


def _moved(value: Any, mesh: Any, given: Sequence[Any], wanted: Sequence[Any]) -> Any:
    """Return a tensor, of which each rank has a part or all, as a distributed one under the wanted placements."""
    if not isinstance(value, TensorCore):
        return value
    whole: Any = value if isinstance(value, DTensor) else DTensor.from_local(value, mesh, given, run_check=False)
    wanted = tuple(wanted)
    return whole if whole.placements == wanted else whole.redistribute(placements=wanted)


def _returned(output: Any, wanted: Sequence[Any], is_local: bool) -> Any:
    """Return an output under the wanted placements, or this rank's part of it."""
    if output.placements != tuple(wanted):
        output = output.redistribute(placements=wanted)
    return output.to_local() if is_local else output
