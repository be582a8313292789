"""BEA: time to first token by replaying the batches an instance is about to form."""
