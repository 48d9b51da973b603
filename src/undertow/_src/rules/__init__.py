"""The mathematics of every op, by family: see `rule.py`. Nothing here knows a tensor, a hook or a mode."""
