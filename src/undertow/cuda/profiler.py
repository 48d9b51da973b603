"""NVIDIA's profiler, which needs a GPU."""

from undertow.cuda._absent import refuse

__all__ = ["init", "profile", "start", "stop"]

init = start = stop = refuse


class profile:
    """Profiles the block."""

    def __enter__(self) -> None:
        refuse()

    def __exit__(self, *exception: object) -> None:
        pass
