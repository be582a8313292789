"""The continuous-batching model of a vLLM instance."""
