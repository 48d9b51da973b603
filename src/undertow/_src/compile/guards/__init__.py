"""What a program depends on: the places that a step reaches, their snapshot, and the checks before each call."""
