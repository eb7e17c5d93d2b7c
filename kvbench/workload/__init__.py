"""Workloads: requests from constants, distributions, shared prefixes, generators and traces."""
