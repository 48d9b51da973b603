"""Found as `torch` by processes that a pretending process starts; makes them pretend too. See undertow/pretend.py."""

from undertow.pretend import pretend_torch

pretend_torch()
