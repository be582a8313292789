"""The multi-hop family: about ten passages, a few of which hold the answer to one question."""

from __future__ import annotations

from dataclasses import replace

from rbx.grid.synth.body import Body
from rbx.grid.synth.talk import READING

_PASSAGES = Body(
    headings=(
        "[#] {town}. {town} is a town known for {thing} since {year:1650-1980}.",
        "[#] {surname}. {surname} of {town} wrote the first account of {thing} in {year:1820-1995}.",
        "[#] The {surname} report. A report on {thing} by {surname} was published in {year:1900-2019}.",
        "[#] {town} and {town2}. The two towns have shared an interest in {activity} since {year:1700-1990}.",
        "[#] The {town} collection. It holds {objects:20-9000} objects to do with {thing} and {thing2}.",
    ),
    sentences=READING.details,
    fewest=3,
    most=6,
    median_characters=4_900,
    spread=0.22,
    shortest_characters=1_600,
    longest_characters=12_000,
)

MULTIHOP = replace(
    READING,
    name="hotpotqa",
    published=6500,
    templates=(
        "Answer the question from the passages below. Most of them have nothing to do with it. Explain your"
        " reasoning in a few sentences, then give the answer.",
    ),
    details=(),
    fewest=0,
    most=0,
    body=_PASSAGES,
    questions=(
        "Question: which town did the author of the first account of {thing} come from, and who paid for the"
        " work?",
        "Question: was the report by {surname} published before the collection moved from {town}?",
        "Question: which of {town} and {town2} was known for {thing} first?",
        "Question: what did the person who disagreed with {surname} give as the reason?",
        "Question: how many people took part in the study that followed the work on {thing2}?",
        "Question: who kept the diary on which the history of {thing} in {town} relies?",
        "Question: do {surname} and {surname2} come from the same town?",
    ),
)
