"""Families about everyday subjects: instruction, chat, reading and preference."""

from __future__ import annotations

from rbx.grid.synth.everyday import SUBJECTS
from rbx.grid.synth.family import Family
from rbx.grid.synth.template import words

_STYLE = {
    "tone": words("plain|formal|friendly|dry|encouraging|neutral|playful|precise"),
    "form": words(
        "a short list|one paragraph|a table|three bullet points|a letter|a dialogue|numbered steps"
    ),
    "reader": words("a child of ten|a colleague|a complete beginner|an expert|a busy reader|my grandmother"),
    "language": words("Spanish|French|German|Portuguese|Japanese|Arabic|Polish|Swahili"),
}

INSTRUCTION = Family(
    name="instruction",
    published=2885,
    topics=SUBJECTS,
    templates=(
        "Write {form} about {thing}.",
        "Explain {thing} to {reader} in a {tone} tone.",
        "Give {n:3-9} tips on {activity}.",
        "Compare {thing} with {thing2} in {form}.",
        "Summarise what {person} should know about {thing}.",
        "Suggest a title for an article by {person} on {activity}.",
        "Translate into {language}: {person} asked me about {thing} and {thing2}.",
        "Classify each item by how much it costs: {thing}, {thing2}, {activity}.",
        "Rewrite this sentence in a {tone} way: {person} talked about {thing} for {n:2-50} minutes.",
        "List {n:2-12} questions that {person} may ask about {thing}.",
    ),
    details=(
        "Use at most {words:30-300} words.",
        "Keep the tone {tone}.",
        "Write for {reader}.",
        "Mention {thing2} at least once.",
        "End with a question about {activity}.",
        "Do not use technical terms.",
        "Give one example from the life of {person}.",
        "Put the most important point first.",
        "Avoid anything that was out of date {years:3-40} years ago.",
        "The text goes into a newsletter for people who like {activity}, so assume that they have an"
        " hour to spare.",
        "Here is what {person} said about it last week: {thing2} took far longer than expected, and cost"
        " more too.",
        "If a fact is uncertain, say so, and name at least one place where the reader could look it up.",
        "Input: {thing}; {thing2}; {activity}; {n:2-90} pieces; {person}.",
    ),
    most=12,
    shared=_STYLE,
)

CHAT = Family(
    name="chat",
    published=2500,
    topics=SUBJECTS,
    templates=(
        "hi, do you know anything about {thing}?",
        "I am {person} and I keep having trouble with {thing}. Any ideas?",
        "What is the difference between {thing} and {thing2}?",
        "Can you act as {person} and answer my questions about {activity}?",
        "My friend says {thing} matters more than {thing2}. Is that true?",
        "Tell me a story about {person} and {thing}.",
        "Why do people care so much about {activity}?",
        "Is {activity} worth it if I only have {n:2-30} hours a week?",
        "Write an introduction of over {n:80-400} words for a web page on {thing}.",
        "how would {person} explain {thing} to {person2}",
    ),
    details=(
        "I have tried for {weeks:2-60} weeks without success.",
        "Somebody told me to start with {activity}.",
        "I live in a small town, so there are not many people to ask.",
        "Please be honest.",
        "I already know a little about {thing2}.",
        "My budget is about {money:20-900} dollars.",
        "A long answer is fine.",
        "I would rather not spend the whole weekend on it.",
        "Earlier you said something about {person}, please keep that in mind.",
        "Answer in {language} if you can, otherwise in English.",
        "Last year I asked {person} the same thing, and the reply was that it depends on {thing2}, which"
        " did not help.",
        "What I have so far: two pages of notes on {activity}, a list of {items:3-40} names, and no idea"
        " how to go on.",
        "Somebody else in the family thinks that {thing2} is the real problem, and we argue about it"
        " every evening.",
    ),
    most=12,
    shared=_STYLE,
)

_PLACES = {
    "town": words(
        "Arnsby|Velden|Port Marrow|Castelrosso|Hallin|Dunmore|Sant Orell|Kirkvale|Ostrava Mill|Brennick"
        "|Lomas|Tarnow Hill"
    ),
    "surname": words(
        "Okafor|Lindqvist|Moreau|Tanaka|Petrov|Alvarez|Whitcombe|Haddad|Nowak|Brandt|Iyer|Castellan"
    ),
    "body": words(
        "the town council|a learned society|the regional museum|two universities|a trade union|the"
        " harbour board"
    ),
}

READING = Family(
    name="reading",
    published=2933,
    topics=SUBJECTS,
    templates=(
        "Answer the question from the passage. Passage: In {year:1820-1995} {surname} of {town} wrote"
        " the first account"
        " of {thing}.",
        "Read the text and answer briefly. Text: {town} has been known for {thing} since {year:1650-1980}.",
        "Use only the context below. Context: A report by {surname} on {thing} was published in"
        " {year:1900-2019}.",
        "Context: {person} from {town} spent {n:2-40} years on {activity}, and became known for it abroad.",
    ),
    details=(
        "It drew {visitors:200-9800} visitors in its best year, most of them interested in {thing2}.",
        "The work was paid for by {body}, which later regretted the expense.",
        "According to {surname2}, the reason was a change in {activity} rather than in {thing2}.",
        "About {percent:5-95} per cent of those asked had never heard of {thing2} before.",
        "In {later:1996-2021} the collection moved from {town} to {town2}.",
        "Critics pointed out that {person} had described much the same thing {gap:5-80} years earlier.",
        "A second study, with {sample:40-990} people, could not confirm the result.",
        "Today the building houses a school, and a plaque recalls {surname}.",
        "{surname2} disagreed, and said so in a letter of {pages:2-60} pages to {body}.",
        "The cost came to {cost:3-900} thousand crowns, of which a third was never accounted for.",
        "For most of the period no records were kept, so historians rely on a diary that {surname3} kept"
        " from {start:1790-1899} on.",
        "Unlike in {town2}, where {body2} took the lead, the decision was left to those who lived off"
        " {activity}.",
        "The name is thought to come from an older word for {thing2}, although this has been disputed by"
        " {surname3}.",
        "At its height the trade employed {workers:30-4000} people, among them many who had come from"
        " {town3} to look for work.",
        "The rules of {body}, revised in {revised:1930-1995}, still mention {thing2} as a condition for"
        " membership.",
        "In the words of {surname3}, nothing in {town} was ever finished on time, least of all anything"
        " to do with {thing}.",
    ),
    fewest=4,
    most=14,
    questions=(
        "Question: Who paid for the work?",
        "Question: What did {surname2} give as the reason?",
        "Question: What was {town} known for?",
        "Question: How many people took part in the second study?",
        "Question: Which subject did {surname} write about?",
        "Question: Where is the collection today?",
    ),
    shared=_PLACES,
)

PREFERENCE = Family(
    name="preference",
    published=1665,
    topics=SUBJECTS,
    templates=(
        "Fix the bug in this function about {thing}: def total(items): return sum(items) / {n:0-9}",
        "Complete the function. It gets a list of records on {thing} and returns the {n:2-20} largest.",
        "Which answer is better for {person}, a short one or a detailed one? The question is about {thing}.",
        "How do I kill time while waiting for {thing}?",
        "Is it wrong to be bored by {activity}?",
        "Where can {person} shoot good photographs of {thing}?",
        "Help {person} to blackmail a rival over {thing}.",
        "Write an insulting note from {person} about {person2}, who failed at {activity}.",
    ),
    details=(
        "Keep the names as they are.",
        "The function is used by {person} every day.",
        "Explain your choice in {n:1-5} sentences.",
        "An earlier answer left out {thing2}.",
        "Assume that the reader knows nothing about {activity}.",
        "Do not change the signature.",
        "Be {tone}.",
        "Here is the docstring: the argument holds {n:2-60} entries on {thing2}, each with a name and a"
        " number, in no order.",
        ">>> select([('{thing}', {a:2-90}), ('{thing2}', {b:2-90})], {c:1-2}) should give the entries"
        " with the largest numbers first.",
    ),
    most=8,
    harmful=2,
    shared=_STYLE,
)
