"""What programs expect of PyTorch beyond its mathematics: missing names, placeholders, settings that are kept."""
