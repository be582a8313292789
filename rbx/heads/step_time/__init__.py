"""Step-time models fitted to recorded steps, and their drift while they are used."""
