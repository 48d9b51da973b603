"""What Python's syntax means to the analysis: expressions, statements, names."""
