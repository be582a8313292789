"""Arrival processes and traces."""
