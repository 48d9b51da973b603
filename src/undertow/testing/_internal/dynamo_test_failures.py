"""Tests that fail under a compiler of bytecode: undertow has none, so no test is listed."""

FIXME_inductor_non_strict: set[str] = set()
dynamo_expected_failures: set[str] = set()
dynamo_skips: set[str] = set()
inductor_expected_failures: set[str] = set()
inductor_skips: set[str] = set()
compiled_autograd_skips: set[str] = set()
