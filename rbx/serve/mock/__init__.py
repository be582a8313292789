"""OpenAI-compatible servers without GPUs: the engine model paced by a real clock, with faults on demand."""
