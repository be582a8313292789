"""A FrugalGPT-style cascade: a cheap model answers first; who asks the next one is the answer's score."""
