"""Which prompts to ask: public data sets and anybody's files, filtered and drawn by a seed."""
