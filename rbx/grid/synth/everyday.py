"""Everyday subjects: word lists that the instruction, chat, reading and preference families share."""

from __future__ import annotations

from rbx.grid.synth.template import Words, words


def _subject(thing: str, activity: str, person: str) -> Words:
    return {"thing": words(thing), "activity": words(activity), "person": words(person)}


SUBJECTS: dict[str, Words] = {
    "cooking": _subject(
        "sourdough bread|lentil soup|a roast chicken|tomato sauce|pumpkin risotto|an apple pie|fried"
        " rice|miso broth"
        "|a cheese soufflé|pickled onions|flatbread|rice pudding|a mushroom stew|pancakes",
        "baking at home|planning a week of meals|sharpening kitchen knives|preserving fruit|seasoning a pan"
        "|cooking for a large family",
        "a pastry cook|a line cook|a food writer|a student with one pot|a parent of three|a village baker",
    ),
    "gardening": _subject(
        "tomato seedlings|a compost heap|rose bushes|a raised bed|an apple tree|garden slugs|winter lettuce"
        "|a herb spiral|lavender hedges|runner beans|a lawn in shade|potted citrus|wild flowers|clay soil",
        "pruning fruit trees|collecting seed|watering in dry summers|rotating crops|grafting|keeping"
        " bees away",
        "an allotment holder|a botanist|a landscape gardener|a beginner with a balcony|a nursery owner|a"
        " ranger",
    ),
    "travel": _subject(
        "a night train|a mountain hostel|a ferry crossing|a lost passport|a walking tour|airport queues"
        "|a rail pass"
        "|a desert camp|an island in the off season|a city break|travel insurance|a cycling route|jet"
        " lag|a visa form",
        "packing light|travelling with small children|hiking alone|sleeping on trains|bargaining at markets"
        "|reading timetables",
        "a tour guide|a train conductor|a backpacker|a retired couple|a flight attendant|a travel agent",
    ),
    "finance": _subject(
        "a pension plan|an index fund|a fixed mortgage|credit card debt|a household budget|inflation|a"
        " savings account"
        "|stock dividends|an emergency fund|student loans|a tax return|government bonds|car insurance"
        "|bank fees",
        "saving for a house|paying off debt|reading a balance sheet|investing monthly|comparing loans"
        "|budgeting as a pair",
        "an accountant|a bank clerk|a young graduate|a small shop owner|an auditor|a retired teacher",
    ),
    "medicine": _subject(
        "seasonal allergies|a sprained ankle|high blood pressure|vitamin D|the flu vaccine|migraine"
        "|sleep apnoea"
        "|iron deficiency|asthma inhalers|a broken wrist|lower back pain|blood sugar|antibiotics|eczema",
        "reading a blood test|caring for a wound|preparing for surgery|stretching after running|taking a"
        " pulse"
        "|keeping a symptom diary",
        "a nurse|a pharmacist|a physiotherapist|a worried parent|a medical student|a patient of seventy",
    ),
    "history": _subject(
        "the fall of a walled city|a medieval guild|the spice trade|the printing press|a peasant revolt"
        "|canal building"
        "|an ancient aqueduct|the plague years|a trade embargo|early railways|a royal marriage|steam power"
        "|a treaty of borders|the first census",
        "dating old maps|reading parish records|excavating a fort|copying manuscripts|restoring frescoes"
        "|interviewing witnesses",
        "an archivist|a schoolteacher|an archaeologist|a museum guide|a local historian|a novelist",
    ),
    "music": _subject(
        "a string quartet|a jazz standard|the cello|a drum pattern|a folk ballad|vocal harmony|a film"
        " score|sheet music"
        "|a synthesiser|the pentatonic scale|a choir rehearsal|a vinyl record|an opera aria|rhythm guitar",
        "tuning a piano|writing lyrics|improvising over chords|recording at home|practising scales"
        "|conducting a choir",
        "a session drummer|a piano teacher|a busker|a choir leader|a sound engineer|a composer",
    ),
    "sport": _subject(
        "a half marathon|a penalty kick|a rowing crew|the offside rule|a climbing wall|a tennis serve"
        "|open water swimming"
        "|a relay race|a chess tournament|strength training|a cycling team|a basketball drill|heart rate"
        " zones|a ski run",
        "training for a race|coaching juniors|recovering from injury|learning to swim|keeping score"
        "|stretching",
        "a goalkeeper|a football coach|a marathon runner|a physiotherapist|a referee|a climbing instructor",
    ),
    "astronomy": _subject(
        "a lunar eclipse|the rings of Saturn|a neutron star|a radio telescope|meteor showers|a red dwarf"
        "|dark matter"
        "|the Milky Way|a comet's tail|sunspots|an exoplanet|the night sky in winter|a space probe|tidal"
        " locking",
        "grinding a mirror|photographing nebulae|measuring parallax|tracking satellites|star hopping"
        "|finding true north",
        "an astronomer|an amateur observer|a planetarium guide|a rocket engineer|a physics teacher|an"
        " astronaut",
    ),
    "animals": _subject(
        "a rescue dog|honey bees|an old cat|migrating geese|a coral reef|garden hedgehogs|a working"
        " horse|river otters"
        "|a barn owl|goldfish|urban foxes|a flock of sheep|sea turtles|house sparrows",
        "training a puppy|ringing birds|tracking wolves|feeding hens|grooming a horse|building nest boxes",
        "a vet|a shepherd|a zookeeper|a beekeeper|a bird watcher|a dog trainer",
    ),
    "business": _subject(
        "a quarterly report|a job interview|a product launch|a supplier contract|a staff meeting"
        "|customer complaints"
        "|a marketing plan|a price increase|remote work|a trade fair|an invoice dispute|a hiring freeze"
        "|a loyalty scheme|office politics",
        "negotiating a raise|writing a pitch|firing a client|onboarding new staff|running a survey"
        "|giving feedback",
        "a project manager|a start-up founder|a sales director|an intern|a personnel officer|a consultant",
    ),
    "home": _subject(
        "a dripping tap|a creaking floor|solar panels|a heat pump|mould in the bathroom|a wobbly shelf"
        "|roof insulation"
        "|an old boiler|a blocked drain|wallpaper|a smoke alarm|a wood stove|double glazing|a garage door",
        "hanging a door|painting a ceiling|sealing windows|saving electricity|moving house|reading the meter",
        "a plumber|an electrician|a landlord|a first-time buyer|a carpenter|a tenant",
    ),
}
