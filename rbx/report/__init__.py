"""From records to intervals, frontiers and the page."""
