"""Options of LinearCrossEntropyLoss."""

from __future__ import annotations

from undertow._src.types.dtypes import dtype

__all__ = ["LinearCrossEntropyOptions"]


class LinearCrossEntropyOptions:
    """How PyTorch splits up the work to save memory. undertow computes the same values in one piece."""

    def __init__(
        self, allow_retain_graph: bool = False, batch_chunk_size: int | None = None,
        chunking_method: str | None = "auto", acc_policy: str = "auto", acc_dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        self.allow_retain_graph, self.batch_chunk_size = allow_retain_graph, batch_chunk_size
        self.chunking_method, self.acc_policy, self.acc_dtype = chunking_method, acc_policy, acc_dtype

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]
