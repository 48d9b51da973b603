"""Tests of the autograd engine that need no oracle."""
