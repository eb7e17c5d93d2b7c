"""Devices and the memory budget that is left for the KV cache."""
