"""What programs expect of PyTorch beyond its mathematics: missing names, placeholders, process settings."""
