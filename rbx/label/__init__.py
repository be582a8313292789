"""Making labels: prompts from public data sets, answers from live models, scores from judges and rules."""
