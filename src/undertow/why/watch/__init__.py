"""Watching a program: see `watcher`."""

from undertow.why.watch.watcher import Watcher as Watcher
