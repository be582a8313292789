"""Routers that know what nobody knows of a live request, and what that is."""

REFERENCES = {
    "oracle": "it sees the labels of the answers it chooses among",
    "source-best": "nobody tells which data set a live request is from",
}
