"""Running the step once with unknown values: the trace, its arguments and numbers, decisions, and what the step leaves."""
