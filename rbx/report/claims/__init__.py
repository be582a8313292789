"""Published statements beside ours: each measured again, with its interval, and judged."""
