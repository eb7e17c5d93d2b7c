"""Paged decode attention measured on a real device, by kernels of our own."""
