"""rbx: experiments and benchmarks for routing prompts over a heterogeneous pool of LLM servers."""

__version__ = "0.1.0"
