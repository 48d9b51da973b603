"""Record what a program does with autograd, on undertow or PyTorch: see `watcher.py`."""

from undertow.why.watch.watcher import Watcher as Watcher
