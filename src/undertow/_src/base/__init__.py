"""What all the rest stands on: errors, hooks, modes, the user's lines, trees of values, late imports."""
