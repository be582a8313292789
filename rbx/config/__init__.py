"""Typed input files: pool, experiment, policy."""
