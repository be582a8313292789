"""The gateway: an OpenAI-compatible server in front of a pool, and the scheduler that decides for it."""
