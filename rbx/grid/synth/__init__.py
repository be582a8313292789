"""Synthetic grids: prompts from templates, labels and lengths from a documented random model."""
