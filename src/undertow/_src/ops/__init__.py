"""The public functions, by family: each runs a rule on tensors."""
