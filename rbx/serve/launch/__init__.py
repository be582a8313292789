"""Bringing up tiers and the gateway in front of them, and ending all of it."""
