"""The mathematics of every op, by family: see `rule.py`. Rules know nothing of tensors, hooks or modes."""
