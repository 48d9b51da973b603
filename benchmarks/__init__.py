"""undertow and torch side by side: `make bench`."""
