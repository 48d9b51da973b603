"""undertow's tests: one folder per part of the source, and `oracle/` for what is checked against real PyTorch."""
