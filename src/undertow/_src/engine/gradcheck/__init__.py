"""What `gradcheck` does: finite differences, the checks themselves, and what else a gradient must hold to."""
