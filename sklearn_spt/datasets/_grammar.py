"""Words and sentences of which :func:`make_short_texts` makes its posts.

Each post is of one of four kinds: 0 figurative, fictional or a false alarm; 1 news and advice; 2 a
report about somebody the author knows; 3 a report about the author. In a sentence, ``{kw}`` is the
keyword, and ``{a}`` is who has it, where ``{b}`` is who has not.
"""

from __future__ import annotations

FIGURATIVE, NEWS, OTHER, SELF = range(4)

KEYWORDS = ("the flu", "a fever", "a migraine", "a bad cough", "a heart attack", "a stroke")

# People by kind, as (subject, object). Only the author's own forms differ, and where a sentence
# has one person as subject and one as object, those would tell who is who without any reading.
_AUTHOR_INFLECTED = (("i", "me"),)
_AUTHOR = ("yours truly", "this tired student", "the person typing this", "this mom right here")
_PEOPLE = {
    FIGURATIVE: (
        "batman",
        "the vampire on that show",
        "the villain in chapter nine",
        "the wizard in the novel",
        "the cartoon cat",
        "the robot in the movie",
        "the ghost in that old joke",
        "the hero of the video game",
        "the snowman in the sketch",
        "the dragon in episode two",
    ),
    NEWS: (
        "the mayor",
        "the finance minister",
        "the new goalkeeper",
        "a patient in the study",
        "the king",
        "half of the fire brigade",
        "the famous tenor",
        "a passenger on the cruise ship",
        "the governor",
        "one adult in five",
    ),
    OTHER: (
        "my sister",
        "my little brother",
        "my roommate",
        "my boss",
        "grandma",
        "our neighbor",
        "my best friend",
        "my husband",
        "dad",
        "my aunt",
        "my lab partner",
        "my cousin",
    ),
}

# A person who stands twice in the list is drawn twice as often.
SAME_CASE = {
    **{kind: tuple((name, name) for name in names) for kind, names in _PEOPLE.items()},
    SELF: _AUTHOR_INFLECTED * len(_AUTHOR) + tuple((name, name) for name in _AUTHOR),
}
ANY_CASE = {
    **_PEOPLE,
    SELF: _AUTHOR,
}

# Who has it: exchanging {a} and {b} leaves the bag of words as it is and changes the class.
WHO_SUBJECTS = (
    "{a} got {kw} and {b} did not",
    "{b} did not get {kw} but {a} did",
    "{a} had {kw} while {b} only watched",
    "{b} only watched while {a} had {kw}",
    "{a} could not leave the bed with {kw}, so {b} had to go to work alone",
    "{b} had to go to work alone because {a} could not leave the bed with {kw}",
    "{a} caught {kw}, {b} caught the bus",
    "{b} caught the bus, {a} caught {kw}",
)
WHO_OBJECTS = (
    "{kw} for {a}, nothing for {b}",
    "nothing for {b}, {kw} for {a}",
    "it was {a} who got {kw}, not {b}",
    "it was not {b} who got {kw}, it was {a}",
    "{kw} hit {a} hard and missed {b}",
    "{kw} missed {b} and hit {a} hard",
)
WHO_TO_WHOM = (
    "{a} called {b} from bed because of {kw}",
    "{b} drove {a} to the clinic because of {kw}",
    "{a} asked {b} to bring pills for {kw}",
    "{b} brought soup to {a}, day two of {kw}",
    "{b} told {a} that the test for {kw} was positive",
    "{b} laughed at {a} for having {kw}",
)

# Whether it is so: the same words say that {s} (object: {o}) has it, and that nobody has. {x} is
# another explanation, {dream} something nice.
WHETHER = (
    (
        "{s} thought it was just {x} but it was {kw}",
        "{s} thought it was {kw} but it was just {x}",
    ),
    (
        "turns out {s} did have {kw} and was not faking",
        "turns out {s} was faking and did not have {kw}",
    ),
    (
        "{kw}? first test negative, then positive for {o}",
        "{kw}? first test positive, then negative for {o}",
    ),
    (
        "{s} stayed home because of {kw} and not because of {x}",
        "{s} stayed home because of {x} and not because of {kw}",
    ),
    (
        "{s} had {kw} and {dream} was only a dream",
        "{s} had {dream} and {kw} was only a dream",
    ),
    (
        "the doctor ruled out {x} and {s} got treated for {kw}",
        "the doctor ruled out {kw} and {s} got treated for {x}",
    ),
    (
        "it is not {x} that keeps {o} in bed, it is {kw}",
        "it is not {kw} that keeps {o} in bed, it is {x}",
    ),
    (
        "{s} said it was a joke but it was {kw}",
        "{s} said it was {kw} but it was a joke",
    ),
)

# Sentences whose words give the kind away, more or less.
PLAIN = {
    FIGURATIVE: (
        "this {thing} will give me {kw}",
        "nearly had {kw} when i saw the {thing}",
        "my phone battery has {kw} again",
        "mondays are like {kw} but with more meetings",
        "our team plays like eleven people with {kw}",
        "their new song is called {kw} and i love it",
        "explaining the {thing} to my boss is worse than {kw}",
        "my laptop got {kw}, the screen keeps freezing",
        "who gave the {thing} {kw}? asking for a friend",
        "the whole city has {kw} for the cup final this {day}",
        "i would rather take {kw} than another {thing}",
        "if the {thing} is late once more i am going to have {kw}",
    ),
    NEWS: (
        "new study links {kw} to {x}, researchers say",
        "{n} signs of {kw} you should never ignore",
        "health officials in {city} warn about {kw} this winter",
        "today is awareness day for {kw}, please share",
        "{n} new cases of {kw} in {city} since {day}",
        "free check for {kw} at the {city} clinic on {day}",
        "doctors explain what to do if somebody has {kw}",
        "how to tell {kw} from {x}, our guide",
        "hospital in {city} opens a ward for patients with {kw}",
        "{n} percent of adults had {kw} last year, says the report",
        "does coffee help against {kw}? what the science says",
        "school in {city} closed after {n} children came down with {kw}",
    ),
    OTHER: (
        "{person} is in the hospital with {kw}, please keep us in your thoughts",
        "taking care of {person}, {kw} since {day}",
        "got a call at work, {person} had {kw} this morning",
        "{person} came home from {city} with {kw}, poor thing",
        "day {n} of {kw} for {person} and the doctor will not help",
        "the doctor says {person} has {kw}, we are waiting for pills",
        "we lost {person} to {kw} last {day}, miss the hugs so much",
        "pray for {person}, {kw} and {n} hours in the waiting room",
        "{person} has been in bed with {kw} since {day}",
        "so proud of {person} for getting back to work after {kw}",
    ),
    SELF: (
        "day {n} of {kw} and i still cannot get out of bed",
        "woke up with {kw}, calling in sick today",
        "just back from the doctor, it is {kw}, send tea",
        "i have been fighting {kw} since {day}, so tired",
        "cannot sleep because of {kw}, everything hurts",
        "on new pills after {kw}, my head feels strange",
        "still recovering from {kw}, thanks for your kind messages",
        "spent {n} hours in the waiting room with {kw}",
        "i had {kw} last {day} and my boss wants me at work",
        "missing the {thing} because i have {kw}",
        "my doctor says {kw}, i say chocolate and bed",
    ),
}

SLOTS = {
    "x": ("stress", "a hangover", "bad coffee", "the weather", "lack of sleep", "old milk"),
    "dream": ("the week in rome", "the new job", "the day off", "the lottery prize"),
    "thing": ("exam", "phone bill", "homework", "train", "wedding", "tax form", "group project"),
    "day": ("monday", "tuesday", "wednesday", "thursday", "friday", "sunday"),
    "city": ("springfield", "lakewood", "riverton", "oakdale", "the capital"),
    "n": ("two", "three", "4", "5", "seven", "12", "twenty"),
}

# Said by anybody about anything, whatever the class: words of all classes, none of which negates
# or asserts what the sentence before it says.
OPENERS = ("ugh", "so", "ok", "wow", "honestly", "update:", "btw", "what a week,", "hey all,")
CLOSERS = (
    "life is weird",
    "send memes",
    "and it is only tuesday",
    "lol",
    "sigh",
    "my boss wants the report today",
    "grandma is baking again",
    "the hospital show is on tonight",
    "reading about sleep at work",
    "need new pills for the dog",
    "the clinic is next to my school",
    "please share the new song",
    "the doctor next door plays the drums",
    "i love my bed",
    "the team meets on monday",
    "tea for all of us",
)
HASHTAGS = ("#mondaymood", "#justsaying", "#tuesday", "#life", "#random", "#2day")
EMOJI = ("\U0001f602", "\U0001f62d", "\U0001f644", "\U0001f637", "\U0001f64f", "\U0001f525")
