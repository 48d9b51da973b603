"""undertow's implementation: all that has no name in PyTorch, one package per area. docs/map.md says what is where."""
