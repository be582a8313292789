"""Any metric of any points of several sweeps, on resamples of prompts that they share where they may."""
