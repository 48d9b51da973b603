"""Found as `torch` by the child processes of a pretending process; makes them pretend too. See undertow/pretend.py."""

from undertow.pretend import pretend_torch

pretend_torch()
