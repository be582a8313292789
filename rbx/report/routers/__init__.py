"""How good routers are by themselves: each chooses a model for each test prompt, and nothing queues."""
