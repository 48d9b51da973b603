"""Automatic differentiation: `backward`, `grad`, hooks on the graph, custom functions."""
