"""Cells in the words of other tools, and their results as cells of ours."""
