"""Figures as functions of data frames, and the catalog that picks those there are data for."""
