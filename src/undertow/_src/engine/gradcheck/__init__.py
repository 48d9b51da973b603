"""The parts of `gradcheck`: finite differences, the comparison, and further requirements on a gradient."""
