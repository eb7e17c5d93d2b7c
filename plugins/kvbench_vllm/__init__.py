"""vLLM as a kvbench engine: its layout by arithmetic, its own accounting, its behaviour."""
