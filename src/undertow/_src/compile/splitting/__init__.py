"""Statements of the step that run on the host: how they are chosen, and code that runs or skips each of them."""
