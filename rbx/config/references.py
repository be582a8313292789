"""Routers that know what nobody knows of a live request, and why simulated sweeps alone can run some."""

# Told the labels, or which data set a prompt is from: lines to measure by, and nobody's rivals.
REFERENCES = frozenset({"oracle", "source-best"})

SIMULATED_ONLY = {
    "cascade": "a gateway streams answers as they come and holds none back to score it",
    "oracle": "it sees the labels of the answers it chooses among",
    "source-best": "nobody tells which data set a live request is from",
}
