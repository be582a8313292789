"""BEST-Route's classifier: an encoder fine-tuned end to end to say which model is best for a prompt."""
