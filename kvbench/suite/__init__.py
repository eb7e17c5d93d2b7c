"""Suites: TOML files that say what to compare, and the strict loader that reads them."""
