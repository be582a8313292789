"""Plan, run and store a grid of cells."""
