"""`torch.hub`: models from a folder with a `hubconf.py`, and weights from the web, with a cache."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import urllib.request
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse

from undertow._src.base.lazy import lazy_names
from undertow.serialization import load as load_file
from undertow.serialization.atomic import replacing

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # weights-<the first digits of their SHA-256>.pth
ENV_TORCH_HOME, ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR = "TORCH_HOME", "XDG_CACHE_HOME", "~/.cache"
READ_DATA_CHUNK = 128 * 1024
_folder: str | None = None
__getattr__, __dir__ = lazy_names(__name__, {"tqdm": "undertow._src.compat.progress_bar:best"})


def get_dir() -> str:
    """Return the folder of downloads: that of `set_dir`, or `hub` in `$TORCH_HOME`."""
    return _folder if _folder is not None else os.path.join(_get_torch_home(), "hub")


def _get_torch_home() -> str:
    """Return the folder of PyTorch's files: `$TORCH_HOME`, or `torch` in the user's cache."""
    cache = os.environ.get(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR)
    return os.path.expanduser(os.environ.get(ENV_TORCH_HOME, os.path.join(cache, "torch")))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder of downloads."""
    global _folder
    _folder = os.path.expanduser(os.fspath(d))


def _make_folder(folder: str) -> None:
    """Make a folder and its parents, accessible to this user only, because its files will be loaded."""
    if not os.path.isdir(folder):
        parent = os.path.dirname(os.path.abspath(folder))
        _make_folder(parent)
        os.makedirs(folder, mode=0o700, exist_ok=True)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download a file. It gets its name only when it is complete and its SHA-256 begins with `hash_prefix`."""
    target = os.path.expanduser(dst)
    request = urllib.request.Request(url, headers={"User-Agent": "torch.hub"})
    with urllib.request.urlopen(request) as answer, replacing(os.path.abspath(target)) as file:
        size = int(answer.headers.get("Content-Length") or 0)
        digest = hashlib.sha256()
        fetched = 0
        shows = progress and sys.stderr.isatty()
        while chunk := answer.read(READ_DATA_CHUNK):
            file.write(chunk)
            digest.update(chunk)
            fetched += len(chunk)
            if shows:
                share = f"{100 * fetched // size} %" if size else f"{fetched >> 10} KiB"
                print(f"\r{os.path.basename(target)}: {share}", end="", file=sys.stderr, flush=True)
        if shows:
            print(file=sys.stderr)
        if size and fetched != size:
            raise RuntimeError(f"the download of {url} ended after {fetched} of {size} bytes: try again")
        if hash_prefix is not None and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True, check_hash: bool = False,
    file_name: str | None = None, weights_only: bool = True,
) -> Any:  # fmt: skip
    """Load a checkpoint from the web, or from the cache if it was downloaded before.

    The file is read as data only, unless `weights_only=False` allows it to run code. (PyTorch's default here is still
    False, unlike that of its `load`.)
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    _make_folder(folder)
    cached = os.path.join(folder, file_name or os.path.basename(urlparse(url).path))
    if not os.path.exists(cached):
        sys.stderr.write(f'Downloading: "{url}" to {cached}\n')
        found = HASH_REGEX.search(os.path.basename(cached)) if check_hash else None
        download_url_to_file(url, cached, found.group(1) if found else None, progress=progress)
    return load_file(cached, map_location=map_location, weights_only=weights_only)


# --- models from a folder


def _hubconf(repo_or_dir: str, source: str) -> ModuleType:
    if source != "local":
        raise ValueError(
            f"undertow supports torch.hub only with source='local', not {source!r}: clone the repository, pass its folder"
        )
    folder = Path(repo_or_dir).expanduser()
    spec = importlib.util.spec_from_file_location("hubconf", folder / "hubconf.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"there is no hubconf.py in {folder}")
    sys.path.insert(0, str(folder))
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


def _entry(module: ModuleType, name: str) -> Any:
    entry = getattr(module, name, None)
    if not callable(entry):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return entry


def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """Call the function `model` of a folder's `hubconf.py`; requires `source="local"`."""
    for option in ("trust_repo", "force_reload", "verbose", "skip_validation"):
        kwargs.pop(option, None)
    return _entry(_hubconf(repo_or_dir, source), model)(*args, **kwargs)


def list(github: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """Return the names of the functions in a folder's `hubconf.py`; requires `source="local"`."""
    module = _hubconf(github, source)
    return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(github: str, model: str, *args: Any, source: str = "github", **kwargs: Any) -> str | None:
    """Return the docstring of a function in a folder's `hubconf.py`; requires `source="local"`."""
    return _entry(_hubconf(github, source), model).__doc__
