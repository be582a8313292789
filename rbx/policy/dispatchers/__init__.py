"""Dispatchers that give each instance a number; the lowest is taken (formulas in docs/bear.md)."""
