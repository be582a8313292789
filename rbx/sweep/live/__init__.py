"""Live cells: real servers driven by an open-loop client, and what surrounds them."""
