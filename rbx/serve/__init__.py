"""Live side: what runs beside real servers."""
