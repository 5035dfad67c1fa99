"""Words and sentences of which :func:`make_short_texts` makes its posts.

Each post is of one of four kinds: 0 figurative, fictional, feared or a false alarm; 1 news and
advice; 2 a report about somebody the author knows; 3 a report about the author. In a sentence,
``{kw}`` is the keyword, and ``{a}`` is who has it, where ``{b}`` is who has not. ``(x|y)`` is a
choice. The vocabulary is large, so that a few hundred labelled posts do not show most
of it. What a sentence means tells its kind, and few single words do.
"""

from __future__ import annotations

import re


def _listed(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in re.split("[;\n]", text.strip()))


FIGURATIVE, NEWS, OTHER, SELF = range(4)

KEYWORDS = ("the flu", "a fever", "a migraine", "a bad cough", "a heart attack", "a stroke")

# People by kind, as (subject, object). Only "i" and "me" differ. In a sentence with two persons
# they would give the class away, so such sentences use `_AUTHOR`.
_AUTHOR_INFLECTED = (("i", "me"),)
_AUTHOR = ("yours truly", "this tired student", "the person typing this", "this mom right here")
_PEOPLE = {
    FIGURATIVE: _listed("""
batman; the vampire on that show; the villain in chapter nine; the wizard in the novel
the cartoon cat; the robot in the movie; the ghost in that old joke; the hero of the video game
the snowman in the sketch; the dragon in episode two
"""),
    NEWS: _listed("""
the mayor; the finance minister; the new goalkeeper; a patient in the study; the king
half of the fire brigade; the famous tenor; a passenger on the cruise ship; the governor
one adult in five
"""),
    OTHER: _listed("""
my sister; my little brother; my roommate; my boss; grandma; our neighbor; my best friend
my husband; dad; my aunt; my lab partner; my cousin; my wife; my mother; my son; my teacher
my stepfather; my landlord; my daughter; my uncle
"""),
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


# Whom a plain sentence is about; "my" would give the class away if it stood in each of these.
PERSONS = _listed("""
dad; mum; granny; grandpa; nana; auntie; uncle joe; our neighbor; my sister; my brother; my wife
my husband; my best friend; our landlady; little emma; baby noah; my roommate; our coach; cousin max
stepdad; mom; our boss; big sis; old mr hill; the boy next door; our babysitter; my fiance; grandad
""")

# Sentences whose meaning gives the kind away, and what else a post of that kind may say.
PLAIN = {
    FIGURATIVE: _listed("""
this (traffic jam|tax form|spreadsheet|homework) is giving me {kw}
my (laptop|printer|phone) has {kw}, it keeps (freezing|beeping|wheezing)
our striker plays like someone with {kw}; that penalty gave the whole stadium {kw}
new name for our band: {kw}, first gig in {city}; their album is called {kw} and it slaps
the bass on this track is contagious, the dance floor has {kw}
the stock market caught {kw} and my savings sneezed; opening the electricity bill: instant {kw}
my bank account gets {kw} whenever rent is due; that price tag nearly caused {kw} in aisle five
seeing you in the hallway gives me {kw}, is this love; my crush texted back, {kw} of the happy kind
in the finale the villain fakes {kw} and escapes, what a twist
the old king in that novel has {kw} for {n} pages, i skimmed
rolled a one, so now my wizard has {kw}; drew the card with {kw} and lost the board game
in my fan fiction the elf prince catches {kw}; the zombies in this game get {kw} from snowballs
season {n} and they still write {kw} whenever an actor quits; the plot has {kw}, wake me at the end
rehearsal on {day}: i play the patient with {kw}, one line; the puppet gets {kw} in act two
that jump scare was {kw} with popcorn; the trailer alone gave me {kw}
this chili sauce is {kw} in a bottle; that cake is {kw} with frosting and i want seconds
monday meetings are {kw} with slides; explaining excel to (the boss|interns) is worse than {kw}
surprise quiz and the whole class came down with {kw}, sure
my tomato plants look like they have {kw}; the lawn mower has {kw} again, sputters and dies
(the dog|the hamster|our parrot) fakes {kw} whenever it is bath time
my toddler says the teddy bear has {kw} and wrapped it in toilet paper
those neon curtains would give a bat {kw}; who paints a kitchen in the color of {kw}
that debate was {kw} with microphones; this election has {kw}, nobody can look away
the weather app has {kw}: snow, sun, hail; our wifi router caught {kw} from the neighbors
rush hour has {kw} and so does the subway; my suitcase gave the airline {kw}
cup fever? more like {kw} for all of {city}; fans in {city} are down with {kw} before the derby
the remix sounds like a robot with {kw}; his dancing looks like a giraffe with {kw}
i would rather have {kw} than (sit through|watch|hear) another (musical|sermon|sales pitch)
costume idea: {kw}, with a cape; my halloween pumpkin looks like {kw}
the meme about {kw} and the duck is killing me; joke of the day: {kw} walks into a bar
love is {kw} and you are the thermometer; autumn is just summer with {kw}
the coffee machine at work has {kw}, drips and groans; this engine has {kw}, call a mechanic
new lipstick shade called {kw}, obsessed; the roller coaster is named {kw}, of course i queued
our group chat has {kw}, {n} messages a minute; the comment section has {kw} again
somebody gave the choir {kw}, that high note was a crime; the orchestra plays as if it had {kw}
my sourdough starter has {kw}; the fridge hums like it is coming down with {kw}
my playlist for cleaning day is called {kw}; wrote my first haiku, it is about {kw} and pigeons
after that plot twist i need a hug, not {kw}; came home from the concert and my ears have {kw}
my horoscope predicts {kw} because mars is moody; up since five because the rooster has {kw}
my guitar took the bus home and now every string has {kw}; my essay is so bad it could cause {kw}
everything about this outfit screams {kw}; my inbox after vacation: {kw}, {n} hundred unread
i cannot parallel park, it gives my instructor {kw}; me and my ex are like tea and {kw}
the sims in my house all got {kw} since the patch; so i named my cactus {kw}
my fantasy league is down with {kw}, last place; dear diary, algebra is {kw}
if i get {kw} before the (prom|wedding|holidays) i will (scream|sue|riot)
so scared of {kw} that i google every sneeze; hope nobody brings {kw} to the party
told the boss i had {kw}, currently at the beach; {person} pretends to have {kw} to skip school
thought it was {kw}, it was only {x}; {person} does not have {kw} after all, just {x}
dreamt i had {kw} and the nurse was a penguin; imagine getting {kw} at your own wedding
{n} winters without {kw}, knock on wood; please never let me get {kw}, i am such a baby
{person} acts like a paper cut is {kw}; {person} would not survive {kw}, cries over a splinter
"""),
    NEWS: _listed("""
new study (links|ties) {kw} to {x}; scientists find a gene behind {kw}
{n} (signs|symptoms) of {kw} you should (never ignore|know); checklist: is it {kw} or {x}
officials in {city} (warn of|prepare for) {kw} this (winter|season); county reports less of {kw}
awareness week for {kw} starts {day}; free screening for {kw} at the library on {day}
(minister|goalkeeper|pop star) cancels (trip|match|tour) over {kw}, spokesman says
veteran (actor|pianist|senator) dies of {kw} at 71; court hears how {kw} ended the reign of a duke
in 1850 they treated {kw} with leeches; mummy shows that pharaohs suffered {kw}
does garlic help against {kw}? we read the evidence; myth: wet hair leads to {kw}
one in {n} adults will have {kw} before retirement; deaths from {kw} fell by {n} percent
hiring: research nurses for a trial on {kw}; apply now for our grant on {kw}
the lecture on {kw} moves to {day}; chapter {n} covers {kw}, read it before the seminar
we teach pupils how to act when somebody has {kw}; first aid course on {day}: {kw} and burns
podcast: a surgeon explains what {kw} does to the body; webinar about {kw}, register here
charity run against {kw} in {city}, sign up; donate and help families that face {kw}
parliament debates who pays for treatment of {kw}; insurers raise prices after {kw}
school board: pupils with {kw} must stay away; employers count the cost of {kw}
(pill|syrup|tea) recalled, was sold as a cure for {kw}; regulator bans advert about {kw}
why women with {kw} wait longer for help, a thread; rural patients with {kw} travel for hours
new drug against {kw} enters its last trial; vaccine team turns to {kw}, funding secured
dogs can smell {kw}, according to biologists; algorithm spots {kw} on a photo
hot summers mean more {kw}, a map; air pollution and {kw}: what the data show
opinion: we talk too little about {kw}; editorial: {kw} deserves a minister of its own
the word for {kw} in latin, and other trivia; quiz: which country has most cases of {kw}
fact sheet on {kw}, free to print; poster about {kw} for your waiting room
ward for {kw} closes, staff protest; {city} opens a center for {kw}
eating fish may lower the risk of {kw}; experts advise walking against {kw}
ask your parents whether {kw} runs in the family; know your numbers, prevent {kw}
call an ambulance at once if a stranger has {kw}; what to do when a guest has {kw}
statistics office: {kw} leads the list of sick notes; survey of {n} thousand on {kw}
global conference on {kw} ends with a pledge; g7 ministers discuss {kw}
documentary about {kw} wins a prize; exhibition in {city} shows paintings of {kw}
our pharmacy offers advice on {kw} every {day}; coupon: ten percent off remedies for {kw}
top {n} foods that help with {kw}; yoga against {kw}, says a guru, doctors disagree
emergency calls for {kw} doubled during the heat wave; hospital beds fill up with {kw}
economists estimate that {kw} costs {n} billion; shares jump on hopes of a test for {kw}
guideline on {kw} updated, blood pressure targets change; meta analysis: statins and {kw}
doctors in {city} call for calm over {kw}; cruise ship with {kw} on board turns back
tourists urged to insure against {kw}; airline may refuse passengers with {kw}
report: children of smokers have {kw} more often; obesity and {kw} rise together
peer reviewed: caffeine and {kw}; correction: our article on {kw} misstated the dose
a look back: {kw} since the war; life after {kw}, a guide by patient groups
know what to do at home because of {kw} season; myths about {kw} that took off online
my column today: {kw} and the health budget; my interview with the author of a book on {kw}
so why is {kw} up again, asks our reporter; everything you wanted to know about {kw}
recovery from {kw} depends on postcode, figures show; after {kw}, driving is banned for a month
my students built a model of {kw}; i am reading my paper on {kw} at the congress on {day}
came across this chart of {kw} by county; back in print: the classic manual of {kw}
nurses from {city} learn to spot {kw}; day clinic for {kw} gets a new wing
{person} gives a talk about {kw} at the museum; {person} wrote a leaflet on {kw}
i asked {n} doctors about {kw}, here is the list; reading up on {kw} for my biology exam
"""),
    OTHER: _listed("""
{person} is (in the hospital|in intensive care|back on the ward) after {kw}
driving home tonight because {person} had {kw}; holding hands with {person}, {kw} is so cruel
(bringing|cooking) soup for {person}, {kw} since {day}; sat up all night with {person}, {kw}
we lost {person} to {kw}; today it is a year since {kw} took {person}
{person} came back from {city} with {kw}, poor thing; {person} caught {kw} at daycare
the phone rang: {person} collapsed, {kw}; the ambulance took {person} away, it was {kw}
{person} finally woke up after {kw}; {person} cannot (speak|swallow|walk) since {kw}
playing nurse for {person}, who has {kw}; our house is a sickbay, {person} is down with {kw}
{person} will miss (graduation|the wedding|christmas) because of {kw}
it breaks my heart to see {person} so frail from {kw}; {kw} has left {person} so thin
so proud of {person}, walking again after {kw}; {person} is home, {kw} did not win
hours in the waiting room with {person}, the answer is {kw}; surgery for {person} at noon, {kw}
{person} keeps (groaning|shivering) next door, {kw}; {person} is miserable with {kw}
{person} went home sick with {kw}; {person} called in with {kw}, third day
{person} swore it was {x}, the doctor says {kw}; {person} hid {kw} from all of us
{kw} has {person} in bed and the dog will not leave; took {person} to urgent care, {kw}
thank you to the nurses who saved {person} from {kw}; {person} is on a ventilator, {kw}
first birthday without {person}, {kw} gave no warning; the funeral of {person}, {kw}, is on {day}
told the kids that {person} has {kw}; explaining {kw} to the twins, they miss {person}
{person} looks stronger today, {kw} is easing; {person} ate some broth, {kw} is letting go
{person} fainted in the shower, {kw}; found {person} on the kitchen floor, {kw}, called 911
{person} texted me a selfie with an oxygen mask, {kw}; flowers for {person}, knocked out by {kw}
chemist, pillows, crossword: {person} has {kw}; {person} mumbles in bed, {kw}, heat everywhere
signed the papers for {person} at reception, {kw}; {person} squeezed my fingers, {kw} did not win
{person} gets physio twice a week, {kw}; rubbing the back of {person}, {kw}, poor lamb
{kw} put {person} in a wheelchair; {kw} turned {person} into a ghost of a human
no school run today, {person} is burning, {kw}; grandchildren drew a card for {person}, {kw}
{person} was buried next to the old oak, {kw}; inherited this watch when {kw} killed {person}
{person} refuses to lie down despite {kw}; {person} wants ice cream and cuddles, {kw}
the paramedics fought for {person}, {kw}; surgeons opened up {person} at dawn, {kw}
{person} whispered goodbye, {kw}; {person} is stable, say the medics, {kw}
moved back in to look after {person}, {kw}; washing and dressing {person} since {kw}
"""),
    SELF: _listed("""
just back from the doctor, {kw} confirmed; the doctor took one look at me and said {kw}
woke up (shivering|drenched|dizzy), so it is {kw}; cannot stand up straight, {kw} broke me
{kw} got me in the end, day {n} in bed; down with {kw} and everything hurts
writing this from a hospital bed, {kw}; they kept me overnight with {kw}
called in sick, {kw} flattened me; sent home from work because i have {kw}
so this is what {kw} feels like; never had {kw} before and i want to die
still recovering from {kw}, a walk to the corner wears me out; finally discharged after {kw}
{n} years since {kw} nearly killed me; i survived {kw} at nineteen
my arm went numb on the train, it was {kw}; lucky to be alive after {kw}
third night without sleep thanks to {kw}; lying in the dark with {kw}
too weak to hold a spoon, {kw}; i can barely type, {kw} is brutal
shaking and sweating with {kw}; my head is splitting, {kw} again
lost my (voice|appetite|balance) to {kw}; throwing up since {day}, {kw}
guess who came down with {kw}, me; picked up {kw} on the plane, feeling awful
learning to (walk|speak|hold a pen) again after {kw}; my hand is slow since {kw}
missing my own birthday because of {kw}; cancelling everything, i have {kw}
the nurse was so kind when i came in with {kw}; the scar on my chest is from {kw}
on antibiotics and painkillers for {kw}; living on broth and pills, {kw}
{kw} and a toddler at home, i am finished; curled up on the bathroom floor, {kw}
ears blocked, nose raw, {kw}; swallowing razor blades, hello {kw}
my wife drove me to urgent care, {kw}; fainted in the checkout line, diagnosis: {kw}
my legs are jelly, {kw}; every light stabs, {kw}, blinds shut
wearing a gown that opens at the back, {kw}; the monitor beeps all night, {kw} for company
stitches out, stent in, {kw} behind me; rehab clinic, week {n}, thanks to {kw}
{kw} hit me on the highway; {kw} dropped me mid sentence
sipping ginger tea and whining, {kw}; vapor rub, hot water bottle, {kw}, me
chills, then sweats, then chills, {kw}; hacking, wheezing, aching, i hate {kw}
too sick to binge anything, {kw}; slept nineteen hours, {kw}
words come out wrong ever since {kw}; half my face drooped, {kw}
ate nothing but crackers all week, {kw}; slowly tasting food again after {kw}
signed off for {n} weeks with {kw}; back at my desk, still wobbly from {kw}
"""),
}
TAILS = {
    FIGURATIVE: _listed("""
worst sequel ever; ten out of ten would dance again; somebody fix it; roll the dice again
the ref is blind; take my money; my controller is in pieces; the popcorn was stale; encore please
turn it off and on again; plot hole of the century; my wallet is crying; cringe; iconic; lol same
what a goal; the bridge of that song though; no spoilers; i rate it two stars; team villain
give them an oscar; send memes; who designed this; best prank of the year; fashion is over
the recipe said mild; season pass cancelled; boss level unlocked; marry me already; hilarious
ctrl alt delete; rent is a scam; karaoke was a mistake; overtime again; this game is rigged
the drummer is a menace; plumbers hate him; cheapest thrill ever; sold out in minutes; my eyes
adopt, do not shop; autocorrect strikes; chapter two is worse; bring earplugs; nine lives left
"""),
    NEWS: _listed("""
full report at ten; details on page five; the authors urge caution; registration is open
link in bio; source: ministry of health; read more; retweet to inform; experts remain divided
figures are provisional; the trial included {n} hundred volunteers; seats are limited
published this week; officials declined to comment; admission is free; speakers from {city}
the board votes on {day}; critics call it too late; an explainer; download the brochure
results expected next year; says the union; subscribe for updates; photo: press office
more at noon; a look at the numbers; peer review pending; tickets at the town hall; see table two
campaigners welcome the move; quoted by the agency; updated hourly; sponsored; opposition objects
"""),
    OTHER: _listed("""
please pray; the kids keep asking; holding on to hope; visiting hours end at eight; send love
so many tubes; we are all exhausted; my heart is broken; hug your people; miss that laugh
the house is so quiet; thank you for the casseroles; tears of relief; i feel helpless
keep us in your thoughts; taking turns at the bedside; poor darling; get well soon
i cannot breathe; rest in peace; counting every breath; stubborn as ever; bless
grandchildren send drawings; packing an overnight bag; fingers crossed; such a fighter; angels exist
we take shifts; the chair stays empty; no words; brave soul; hearing that wheeze is hard; amen
"""),
    SELF: _listed("""
send soup; the room is spinning; cannot keep water down; my ribs ache; hooked up to monitors
sleeping all day; my bones hurt; so many needles; hospital food is awful; feeling sorry for myself
grateful to be here; tissues everywhere; my eyes burn; somebody feed my cat; crying into a pillow
freezing under blankets; the pills make me drowsy; no energy left; everything aches; i need a nap
throat on fire; one day at a time; rehab is hard; too weak to shower
shivers down to my toes; hot water bottle on duty; ibuprofen for breakfast; voice of a frog
nose like a tap; drip in my arm; legs like pudding; sweating through the sheets; sore all over; ouch
"""),
}

SLOTS = {
    "x": ("stress", "a hangover", "bad coffee", "the weather", "lack of sleep", "old milk"),
    "dream": ("the week in rome", "the new job", "the day off", "the lottery prize"),
    "day": ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    "city": _listed("springfield; lakewood; riverton; oakdale; the capital; milton; ashford"),
    "n": ("two", "three", "4", "5", "seven", "12", "twenty", "nine"),
}

# Said by anybody about anything, whatever the class: words of all classes, none of which negates
# or asserts what the sentence before it says.
OPENERS = ("ugh", "so", "ok", "wow", "honestly", "update:", "btw", "what a week,", "hey all,")
CLOSERS = _listed("""
life is weird; send memes; and it is only tuesday; lol; sigh; my boss wants the report today
grandma is baking again; the hospital show is on tonight; reading about sleep at work
need new pills for the dog; the clinic is next to my school; please share the new song
the doctor next door plays the drums; i love my bed; the team meets on monday; tea for all of us
""")
HASHTAGS = ("#mondaymood", "#justsaying", "#tuesday", "#life", "#random", "#2day")
EMOJI = ("\U0001f602", "\U0001f62d", "\U0001f644", "\U0001f637", "\U0001f64f", "\U0001f525")
