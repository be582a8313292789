"""Speed of the hot paths, each beside its plain version or a peer; ``python -m benchmarks``."""
