"""Tests of undertow.nn beyond what PyTorch can be asked about."""
