"""vLLM's scheduler and cache manager, decision by decision (see ``config.MIRRORS``)."""
