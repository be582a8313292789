"""What the gateway knows of every instance: its own traffic, scrapes, probes and published states."""
