"""Names inside PyTorch's pytree that packages and tests import: constants, named tuples in text, what is registered."""

from __future__ import annotations

import enum
import json
from collections import namedtuple
from typing import Any

from tests.oracle.harness import agree, agree_error

Point = namedtuple("Point", "a b")


class Color(enum.Enum):
    RED = 1


class Constant:
    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"Constant({self.value})"


def test_constants() -> None:
    def program(torch: Any) -> Any:
        pytree = torch.utils._pytree
        before = pytree.is_constant_class(Constant)
        pytree.register_constant(Constant)
        try:
            leaves, spec = pytree.tree_flatten([Constant(3), 2])
            (held, _) = spec.children()
            return (
                before, pytree.is_constant_class(Constant), Constant in pytree.CONSTANT_NODES, leaves, repr(spec),
                pytree._is_constant_holder(held), repr(pytree._retrieve_constant(held)), repr(pytree.ConstantNode(3)),
                repr(pytree.tree_unflatten([5], spec)),
            )  # fmt: skip
        finally:
            pytree._deregister_pytree_node(Constant)

    agree(program)
    agree_error(lambda torch: torch.utils._pytree._retrieve_constant(torch.utils._pytree.tree_structure([1])))
    agree_error(lambda torch: torch.utils._pytree.register_constant(type("Plain", (), {})), words=7)


def test_named_tuples_and_enums_in_text() -> None:
    def program(torch: Any) -> Any:
        pytree = torch.utils._pytree
        pytree._register_namedtuple(Point, serialized_type_name="my.Point")
        spec = pytree.tree_structure(Point(1, 2))
        written = json.dumps({"x": Color.RED}, cls=pytree.EnumEncoder)
        return (
            pytree.pytree_to_str(spec), pytree.str_to_pytree(pytree.pytree_to_str(spec)) == spec, written,
            json.loads(written, object_hook=pytree.enum_object_hook) == {"x": Color.RED},
        )  # fmt: skip

    agree(program)


def test_what_is_registered() -> None:
    def program(torch: Any) -> Any:
        pytree = torch.utils._pytree
        pytree.register_pytree_node(Color, lambda d: ([], None), lambda v, c: Color.RED)
        known = Color in pytree.SUPPORTED_NODES
        pytree._deregister_pytree_node(Color)
        return (
            known, Color in pytree.SUPPORTED_NODES,
            sorted(map(str, pytree.STANDARD_DICT_TYPES)), repr(list(pytree._generate_key_paths((), [1, {"a": 2}]))),
            pytree._is_pytreespec_instance(3), pytree._is_pytreespec_instance(pytree.tree_structure(1)),
            sorted(getattr(kind, "__name__", "") for kind in pytree.BUILTIN_TYPES),
        )  # fmt: skip

    agree(program)
