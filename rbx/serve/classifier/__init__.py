"""A running vLLM Semantic Router, asked for the categories of prompts."""
