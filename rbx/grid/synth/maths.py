"""The maths family: word problems, by kind of reasoning."""

from __future__ import annotations

from rbx.grid.synth.family import Family
from rbx.grid.synth.template import Words, words


def _kind(story: str) -> Words:
    return {"story": words(story)}


_KINDS: dict[str, Words] = {
    "shopping": _kind(
        "buys boxes of pencils|buys fruit at a market|orders printed shirts|pays for cinema tickets"
    ),
    "speed": _kind("drives along a motorway|cycles to the coast|walks round a lake|rows against the current"),
    "work rates": _kind("paints a fence|fills a swimming pool|types a manuscript|digs a trench"),
    "ages": _kind(
        "compares ages with a cousin|asks how old the twins are|works out a grandparent's age|dates a tree"
    ),
    "fractions": _kind(
        "cuts a pizza into slices|shares a bar of chocolate|empties part of a tank|reads part of a novel"
    ),
    "percentages": _kind(
        "gets a discount on a coat|earns interest at a bank|tips a waiter|measures a fall in price"
    ),
    "geometry": _kind(
        "fences a rectangular field|tiles a square kitchen|measures a cylinder|folds a triangle of paper"
    ),
    "counting": _kind(
        "arranges books on a shelf|picks a committee|deals a hand of cards|chooses a lock code"
    ),
    "averages": _kind("averages exam marks|records daily rainfall|weighs parcels|times laps of a track"),
    "mixtures": _kind("mixes two kinds of coffee|dilutes a syrup|blends animal feed|alloys two metals"),
    "schedules": _kind("plans bus departures|takes pills at intervals|divides shifts|waters plants in turn"),
    "farming": _kind(
        "collects eggs from hens|loads sacks of grain|milks a herd of cows|plants rows of maize"
    ),
}

MATHS = Family(
    name="maths",
    published=2873,
    topics=_KINDS,
    templates=(
        "Solve the problem with brief reasoning and end with the final number. Problem: {who} {story} on"
        " {day}. There"
        " are {a:3-60} in the first part and {b:2-40} more in the second.",
        "{who} {story} {a:2-9} times a week, with {b:4-80} units each time.",
        "On {day} {who} {story}. The first half takes {a:5-90} minutes and the rest {b:2-9} times as long.",
        "{who} and {who2} share a task: {who} {story}, {who2} does {a:2-8} times as much plus {b:3-50}.",
        "{who} {story}. At the start there are {a:20-900} units, and {b:2-19} go to {who2} each day.",
    ),
    details=(
        "A quarter of the total is lost on the way.",
        "{who2} adds {c:2-70} units but takes back half of them on {day2}.",
        "Each unit costs {c:2-30} dollars, and every tenth one is free.",
        "After {d:2-12} days the amount doubles.",
        "They agree to keep {d:3-50} units in reserve.",
        "A third person, who comes late, gets {percent:5-45} per cent of what is left.",
        "On {day2} nothing happens.",
        "The year before it had been {e:10-400} units fewer.",
    ),
    most=7,
    questions=(
        "How many units are there in total?",
        "How much is left at the end of the week?",
        "What does {who} pay altogether? Put only the number on the last line.",
        "How many more does {who2} have than {who}?",
        "After how many days is everything gone?",
        "What is the ratio between the two amounts?",
    ),
    shared={
        "who": words(
            "Amara|Bruno|Chen|Dalia|Emil|Farah|Goran|Hana|Ivo|Jola|Kofi|Lena|Mateo|Nadia|Omar|Priya"
        ),
        "day": words("Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"),
    },
)
