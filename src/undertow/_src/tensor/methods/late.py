"""The families of methods that a tensor gets when they are first used, for type checkers: see `lazy_table.py`."""

from __future__ import annotations

from undertow._src.tensor.methods.random import RandomMethods
from undertow.ops.activation import ActivationMethods
from undertow.ops.addmm import AddmmMethods
from undertow.ops.arithmetic import ArithmeticMethods
from undertow.ops.arrange import ArrangeMethods
from undertow.ops.clamp import ClampMethods
from undertow.ops.compare import CompareMethods
from undertow.ops.complex import ComplexMethods
from undertow.ops.decompositions import DecompositionMethods
from undertow.ops.elementwise import ElementwiseMethods
from undertow.ops.factor import FactorMethods
from undertow.ops.index import IndexMethods
from undertow.ops.indexing import IndexingMethods
from undertow.ops.masks import MaskMethods
from undertow.ops.matmul import MatmulMethods
from undertow.ops.norms import NormMethods
from undertow.ops.parts import PartMethods
from undertow.ops.products import ProductMethods
from undertow.ops.reduce import ReduceMethods
from undertow.ops.scan import ScanMethods
from undertow.ops.scatter import ScatterMethods
from undertow.ops.shape import ShapeMethods
from undertow.ops.sort import SortMethods
from undertow.ops.statistics import StatisticsMethods
from undertow.ops.stretch import StretchMethods
from undertow.ops.triangular import TriangularMethods
from undertow.ops.writing import WritingMethods


class LateMethods(
    ElementwiseMethods,
    ArithmeticMethods,
    ClampMethods,
    CompareMethods,
    ComplexMethods,
    ActivationMethods,
    ReduceMethods,
    ScanMethods,
    SortMethods,
    StatisticsMethods,
    MatmulMethods,
    AddmmMethods,
    ProductMethods,
    NormMethods,
    FactorMethods,
    DecompositionMethods,
    TriangularMethods,
    ShapeMethods,
    StretchMethods,
    PartMethods,
    ArrangeMethods,
    WritingMethods,
    IndexingMethods,
    IndexMethods,
    MaskMethods,
    ScatterMethods,
    RandomMethods,
):
    """What `Tensor` has besides the classes it inherits from."""

    __slots__ = ()
