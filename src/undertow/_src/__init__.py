"""undertow's own house: all that has no name in PyTorch, by rooms. docs/map.md says what is where."""
