"""The client of one live instance, and the breaker that keeps requests from one that fails."""
