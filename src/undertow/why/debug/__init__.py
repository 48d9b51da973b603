"""The backward pass in steps: `undertow debug script.py`, and `why.debug()` in code."""
