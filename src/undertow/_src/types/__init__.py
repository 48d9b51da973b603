"""The values that describe tensors: dtypes, devices, layouts, sizes, symbolic numbers."""
