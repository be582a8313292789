"""Routers that simulated sweeps alone can run, and why: most know what nobody knows of a live request."""

REFERENCES = {
    "cascade": "a gateway streams answers as they come and holds none back to score it",
    "oracle": "it sees the labels of the answers it chooses among",
    "source-best": "nobody tells which data set a live request is from",
}
