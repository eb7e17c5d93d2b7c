"""The analytic engine: bytes, blocks and concurrency by arithmetic alone."""
