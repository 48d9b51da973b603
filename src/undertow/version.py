"""The version of undertow, and its build."""

__version__ = "0.1.0"
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version = "unknown"
debug = False
