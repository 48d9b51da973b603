"""From a trace to one jitted function: inputs and outputs, donated memory, and the program of a later backward."""
