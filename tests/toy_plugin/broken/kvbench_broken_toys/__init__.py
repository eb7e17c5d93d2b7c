"""Plugins that break at registration."""
