"""The foundations: errors, hooks, modes, sites in the user's program, trees of values, lazy imports."""
