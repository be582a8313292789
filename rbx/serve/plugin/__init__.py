"""What runs inside a vLLM process: a scheduler that publishes its state after every step."""
