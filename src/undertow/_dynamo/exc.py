"""What PyTorch's compiler raises. Nothing here does; programs that guard against it may name it."""


class TorchDynamoException(RuntimeError):
    """Any error of PyTorch's compiler."""


class Unsupported(TorchDynamoException):
    """Code that it cannot compile."""


class BackendCompilerFailed(TorchDynamoException):
    """A backend that failed."""


class RecompileLimitExceeded(Unsupported):
    """Code that was compiled too often."""


class InternalTorchDynamoError(TorchDynamoException):
    """A mistake of the compiler's own."""
