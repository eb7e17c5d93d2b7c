"""Implements nothing at all."""
