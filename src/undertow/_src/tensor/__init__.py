"""What a tensor is, and how tensors are made and printed."""
