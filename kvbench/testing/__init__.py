"""Tools for testing engines, suites and readers of results; shipped with kvbench."""
