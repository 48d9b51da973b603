"""`python -m torch.distributed.run`: torchrun's command line, for undertow's launcher."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> None:
    """Run `undertow run` with the same options; one rank by default."""
    arguments = list(sys.argv[1:] if args is None else args)
    if not any(argument.startswith(("--nproc-per-node", "--nproc_per_node")) for argument in arguments):
        arguments.insert(0, "--nproc-per-node=1")
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "undertow", "run", *arguments])


if __name__ == "__main__":
    main()
