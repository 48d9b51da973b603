"""From a trace to one jitted function: inputs, outputs, donated buffers; and the program of a later backward pass."""
