"""Exceptions of PyTorch's compiler, for `except` clauses; undertow never raises them."""


class TorchDynamoException(RuntimeError):
    """Any error of PyTorch's compiler."""


class Unsupported(TorchDynamoException):
    """Code that the compiler does not support."""


class BackendCompilerFailed(TorchDynamoException):
    """A compiler backend failed."""


class RecompileLimitExceeded(Unsupported):
    """A function was recompiled too often."""


class InternalTorchDynamoError(TorchDynamoException):
    """An internal error of the compiler."""
