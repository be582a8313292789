"""The story family: one or two sentences that ask for a story, by genre."""

from __future__ import annotations

from rbx.grid.synth.family import Family
from rbx.grid.synth.template import Words, words


def _genre(hero: str, place: str, secret: str) -> Words:
    return {"hero": words(hero), "place": words(place), "secret": words(secret)}


_GENRES: dict[str, Words] = {
    "space": _genre(
        "the last engineer of a colony ship|a smuggler between moons|a retired starship captain"
        "|an android on its first watch|a geologist on a dead planet",
        "an orbital shipyard|a frozen moon|a ship that has drifted for centuries|a mining asteroid",
        "the stars on the charts have been painted over|the crew has been asleep all along"
        "|the distress call was recorded tomorrow|the computer has been writing poetry",
    ),
    "fantasy": _genre(
        "a dragon with a fear of heights|a wizard's unpaid apprentice|an orc who bakes bread"
        "|the youngest of seven queens|a knight without a quest",
        "a tower with no stairs|a forest that moves at night|a market of borrowed names|a drowned kingdom",
        "the prophecy was a printing error|every spell is paid for by a stranger"
        "|the sword chooses its victims|the map is alive",
    ),
    "horror": _genre(
        "a night watchman|a child with an invisible friend|the new tenant of the upper floor"
        "|a doctor in a closed ward|a lighthouse keeper",
        "a house without doors|an empty motel|a cellar that is larger each week|a village in the fog",
        "the knocking comes from inside the mirror|nobody buried the right man"
        "|the photographs are a day ahead|the lullaby has one more verse",
    ),
    "detective": _genre(
        "a detective who cannot lie|a forger turned witness|a private eye on the last case"
        "|a police clerk with perfect memory|a retired judge",
        "a jazz club by the harbour|a locked library|a night train|an auction house",
        "the victim wrote the confession|the alibi is true but a year old"
        "|the only witness is a parrot|two people share one fingerprint",
    ),
    "war": _genre(
        "a field medic|a soldier who carries letters|a pilot shot down behind the lines"
        "|a cook in a besieged fort|a general who has never won",
        "a trench in winter|a ruined opera house|a bridge that must hold|an island nobody wants",
        "the war ended a month ago|both armies follow the same orders"
        "|the enemy was the first to apologise|the medals are made of tin",
    ),
    "romance": _genre(
        "a florist who hates weddings|two rivals for one bakery|a widower learning to dance"
        "|a translator between two pen friends|a piano tuner",
        "a seaside hotel in autumn|a queue that never moves|a small bookshop|the last ferry of the day",
        "the letters were meant for the sister|each of them has lied about the same thing"
        "|they have met once before|the ring does not fit anybody",
    ),
    "time": _genre(
        "a clockmaker with a stolen hour|a historian sent back too far|a man who lives each day twice"
        "|a tourist from the next century|a grandmother at the age of nine",
        "a station where all clocks differ|a year that was left out|an attic full of calendars"
        "|a stopped city",
        "the future has been cancelled|the machine only works on regrets"
        "|somebody has already fixed it|the note is in the traveller's own hand",
    ),
    "heroes": _genre(
        "a superhero with a useless power|a villain in therapy|the sidekick who does the work"
        "|a hero's insurance agent|a masked nurse",
        "a city that rebuilds itself|a school for the gifted|a court for masked people|a flooded subway",
        "the power lasts seven minutes|the arch-enemy pays the rent"
        "|the mask cannot be taken off|every rescue costs a memory",
    ),
    "afterlife": _genre(
        "a clerk at the gate|Death on a day off|a ghost who collects stamps|a soul with the wrong file"
        "|the first person to be sent back",
        "a waiting room without windows|the lost and found of heaven|a river ferry|an office in the basement",
        "the list has been wrong for years|nobody is judged on what they expect"
        "|the coffee is the punishment|reincarnation has a refund",
    ),
    "apocalypse": _genre(
        "the last radio host|a gardener in the ruins|a girl who trades batteries|a librarian with a shotgun"
        "|a dog that can count",
        "a supermarket roof|a highway of rusted cars|a vault with one bed|a city of glass dust",
        "the world ended on purpose|the survivors are the experiment"
        "|the rain has started to speak|somebody still delivers the mail",
    ),
    "fable": _genre(
        "a fox who keeps the books|a tailor with nine daughters|a stone that wishes|the north wind"
        "|a miller's honest cat",
        "a well with an echo|a kingdom of two hills|a bridge with a toll|a hut on a turtle",
        "the wish was granted to the wrong one|the giant is only lonely"
        "|the gold turns into questions|the moral has been stolen",
    ),
    "school": _genre(
        "a new teacher|the student who never ages|a janitor who knows every secret|two twins with one exam"
        "|the head of a failing school",
        "a school on the last tram stop|a detention room|a library after hours|an exam hall in summer",
        "the lessons come true|the teachers are graded by the walls"
        "|the class photograph has one face too many|the bell rings for somebody",
    ),
}

STORIES = Family(
    name="writingprompts",
    published=6500,
    topics=_GENRES,
    templates=(
        "Write a story for this prompt: {hero} arrives at {place} and learns that {secret}.",
        "Write a story for this prompt: for {years:2-900} years nobody has left {place}. Then {hero} does.",
        "Write a story for this prompt: {hero} meets {hero2}, and both know that {secret}.",
        "Write a story for this prompt: you are {hero}. On day {day:2-400} you find out that {secret}.",
        "Write a story for this prompt: everybody in {place} believes that {secret}, except for {hero}.",
        "Write a story for this prompt: {secret}. It takes {hero} {days:2-90} days to notice.",
        "Write a story for this prompt: {hero} inherits {place} on one condition.",
        "Write a story for this prompt: a letter reaches {hero} in {place}, {years:3-300} years late.",
    ),
    details=(
        "Nobody believes it, and {hero2} least of all.",
        "It would be easier if it were not also true that {secret2}.",
        "The only way out leads through {place2}.",
        "There are {hours:2-48} hours left.",
        "The story begins with the words: it was never about {place2}.",
    ),
    most=3,
)
