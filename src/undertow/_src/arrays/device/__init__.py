"""Arrays on a device or in a trace: the array that a tensor holds, its buffer, and its device."""
