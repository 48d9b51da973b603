"""Fully sharded data parallelism: parameters, gradients and optimizer state split over ranks."""
