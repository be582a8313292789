"""Two sweeps side by side: the same policies on the same workloads, paired by prompt."""
