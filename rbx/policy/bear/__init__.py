"""BEAR (arXiv 2607.18253): routing by utility among the instances that answer in time."""
