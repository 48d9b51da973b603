"""Statements of the step that run on the host: which they are, and code that runs one or leaves it out."""
