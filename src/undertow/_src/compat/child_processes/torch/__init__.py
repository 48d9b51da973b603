"""Found as `torch` by the child processes of a pretending process; makes them pretend too. See undertow/pretend.py.

A child with another Python, which lacks undertow, gets its own torch.
"""

import importlib
import os
import sys

try:
    from undertow.pretend import pretend_torch
except ImportError:
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    del sys.modules["torch"]
    importlib.import_module("torch")
else:
    pretend_torch()
