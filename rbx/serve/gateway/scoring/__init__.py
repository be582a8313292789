"""Prompts scored before they wait for a batch, in the ways of ``rbx.config.deployment``."""
