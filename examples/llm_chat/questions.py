# ruff: noqa: SIM905
"""Questions with known answers: arithmetic, calendar, colours, tool calls, names. Made, not collected.

Every question belongs for good to the training half or to the held-out tenth, by a checksum of what is asked.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = ("January February March April May June July August September October November December").split()
LENGTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
MIXES = {
    ("red", "blue"): "purple", ("red", "yellow"): "orange", ("blue", "yellow"): "green",
    ("red", "white"): "pink", ("black", "white"): "grey", ("red", "green"): "brown",
}  # fmt: skip
THINGS = {
    "banana": "yellow", "lemon": "yellow", "sunflower": "yellow", "tomato": "red", "strawberry": "red",
    "fire engine": "red", "cherry": "red", "clear sky": "blue", "ocean": "blue", "sapphire": "blue",
    "grass": "green", "frog": "green", "cucumber": "green", "emerald": "green", "snow": "white", "milk": "white",
    "swan": "white", "coal": "black", "raven": "black", "night sky": "black", "carrot": "orange",
    "pumpkin": "orange", "flamingo": "pink", "plum": "purple", "elephant": "grey", "chocolate": "brown",
}  # fmt: skip
CITIES = (
    "Paris London Berlin Rome Madrid Vienna Prague Oslo Dublin Lisbon Athens Warsaw Tokyo Beijing "
    "Shanghai Shenzhen Seoul Delhi Cairo Nairobi Lima Quito Boston Chicago Denver Toronto Sydney "
    "Perth Hanoi Bangkok"
).split()
ROOMS = "kitchen bathroom bedroom office hall garage cellar garden".split()
SKIES = "sunny cloudy rainy snowy windy foggy".split()
NAMES = "Anna Ben Clara David Emma Felix Greta Hugo Ida Jonas Karl Lena Max Nora Oscar Paula".split()

FORMS = {
    "arithmetic": [
        "What is {a} {s} {b}?",
        "How much is {a} {w} {b}?",
        "Calculate {a} {s} {b}.",
        "{a} {s} {b} = ?",
    ],
    "neighbour": [
        "What {w} comes {x} {n}?",
        "Which {w} is {x} {n}?",
        "Name the {w} {x} {n}.",
        "{n}: which {w} is {x} it?",
    ],
    "days away": [
        "Which day is {c} days {x} {n}?",
        "What day comes {c} days {x} {n}?",
        "Name the day {c} days {x} {n}.",
    ],
    "length": [
        "How many days does {n} have?",
        "How long is {n}?",
        "How many days are in {n}?",
        "Tell me the days of {n}.",
    ],
    "mix": [
        "What do {a} and {b} make?",
        "Mix {a} and {b}.",
        "What colour is {a} mixed with {b}?",
        "What do you get from {a} and {b}?",
    ],
    "thing": [
        "What colour is {t}?",
        "Which colour has {t}?",
        "Tell me the colour of {t}.",
        "{t}: what colour?",
    ],
    "weather": [
        "What is the weather in {c}?",
        "How is the weather in {c}?",
        "Weather in {c}, please.",
        "Is it raining in {c}?",
    ],
    "light": [
        "Turn {s} the light in the {r}.",
        "Switch the {r} light {s}.",
        "Light {s} in the {r}, please.",
        "{r} light {s}.",
    ],
    "timer": [
        "Set a timer for {m} minutes.",
        "Wake me in {m} minutes.",
        "Timer: {m} minutes.",
        "Start a {m} minutes timer.",
    ],
}
"""How each kind of question may be worded."""

TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": properties}},
    }
    for name, properties in {
        "get_weather": {"city": {"type": "string"}},
        "set_light": {"room": {"type": "string"}, "state": {"type": "string"}},
        "set_timer": {"minutes": {"type": "integer"}},
    }.items()
]


@dataclass(frozen=True)
class Question:
    """A conversation whose last message is the answer that counts; ``key`` decides about held-out."""

    kind: str
    key: str
    messages: list[dict[str, str]] = field(compare=False)
    tools: bool = False

    @property
    def held_out(self) -> bool:
        """Whether training may not see it."""
        return zlib.crc32(self.key.encode()) % 10 == 0

    @property
    def answer(self) -> str:
        """What the model should say."""
        return self.messages[-1]["content"]


def _asked(kind: str, key: str, question: str, answer: str, tools: bool = False) -> Question:
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return Question(kind, key, turns, tools)


def arithmetic(rng: random.Random) -> Question:
    """Sums and differences of numbers below 100; which numbers are held out does not depend on the wording."""
    return _sum(rng, 100, 100)


def easy_arithmetic(rng: random.Random) -> Question:
    """The same, but numbers of one digit are as frequent as numbers of two."""
    return _sum(rng, rng.choice([10, 100]), rng.choice([10, 100]))


def _sum(rng: random.Random, below: int, second_below: int) -> Question:
    a, b, plus = rng.randrange(below), rng.randrange(second_below), rng.random() < 0.5
    if not plus and a < b:
        a, b = b, a
    sign, word, result = ("+", "plus", a + b) if plus else ("-", "minus", a - b)
    form = rng.choice(FORMS["arithmetic"])
    return _asked(
        "arithmetic", f"{a}{sign}{b}", form.format(a=a, b=b, s=sign, w=word), f"{a} {sign} {b} = {result}"
    )


def calendar(rng: random.Random) -> Question:
    """Days, months and their lengths."""
    return rng.choice([_neighbour, _days_away, _length])(rng)


def _neighbour(rng: random.Random) -> Question:
    names, word = rng.choice([(DAYS, "day"), (MONTHS, "month")])
    at, (where, step) = rng.randrange(len(names)), rng.choice([("after", 1), ("before", -1)])
    form = rng.choice(FORMS["neighbour"])
    text = form.format(w=word, x=where, n=names[at])
    return _asked("calendar", text, text, f"{names[(at + step) % len(names)]}.")


def _days_away(rng: random.Random) -> Question:
    at, count, (where, step) = (
        rng.randrange(7),
        rng.randrange(2, 7),
        rng.choice([("after", 1), ("before", -1)]),
    )
    form = rng.choice(FORMS["days away"])
    text = form.format(c=count, x=where, n=DAYS[at])
    return _asked("calendar", text, text, f"{DAYS[(at + step * count) % 7]}.")


def _length(rng: random.Random) -> Question:
    at = rng.randrange(12)
    form = rng.choice(FORMS["length"])
    text = form.format(n=MONTHS[at])
    return _asked("calendar", text, text, f"{MONTHS[at]} has {LENGTHS[at]} days.")


def colours(rng: random.Random) -> Question:
    """Colours of things, and what mixing gives."""
    if rng.random() < 0.3:
        (one, two), mixed = rng.choice(list(MIXES.items()))
        if rng.random() < 0.5:
            one, two = two, one
        form = rng.choice(FORMS["mix"])
        text = form.format(a=one, b=two)
        return _asked("colours", text, text, f"{one} and {two} make {mixed}.")
    thing, colour = rng.choice(list(THINGS.items()))
    form = rng.choice(FORMS["thing"])
    text = form.format(t=thing)
    return _asked("colours", text, text, f"{thing} is {colour}.")


def call(name: str, **arguments: object) -> str:
    """A tool call as the model writes it."""
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


def tool_call(rng: random.Random) -> Question:
    """A request that one of the tools can answer."""
    return rng.choice([_weather, _light, _timer])(rng)


def _weather(rng: random.Random) -> Question:
    city = rng.choice(CITIES)
    form = rng.choice(FORMS["weather"])
    text = form.format(c=city)
    return _asked("tool", text, text, call("get_weather", city=city), tools=True)


def _light(rng: random.Random) -> Question:
    room, state = rng.choice(ROOMS), rng.choice(["on", "off"])
    form = rng.choice(FORMS["light"])
    text = form.format(r=room, s=state)
    return _asked("tool", text, text, call("set_light", room=room, state=state), tools=True)


def _timer(rng: random.Random) -> Question:
    minutes = rng.randrange(2, 100)
    form = rng.choice(FORMS["timer"])
    text = form.format(m=minutes)
    return _asked("tool", text, text, call("set_timer", minutes=minutes), tools=True)


def tool_result(rng: random.Random) -> Question:
    """The second half of a tool call: its result is to be put into words."""
    asked = _weather(rng)
    city = json.loads(asked.answer.split("\n")[1])["arguments"]["city"]
    sky, degrees = rng.choice(SKIES), rng.randrange(0, 40)
    result = json.dumps({"sky": sky, "degrees": degrees})
    turns = [
        *asked.messages,
        {"role": "tool", "content": result},
        {"role": "assistant", "content": f"It is {sky} in {city} at {degrees} degrees."},
    ]
    return Question("result", f"{city} {sky} {degrees}", turns, tools=True)


def names(rng: random.Random) -> Question:
    """What was said before is remembered."""
    name, between = rng.choice(NAMES), rng.choice([colours, calendar])(rng)
    turns = [
        {
            "role": "user",
            "content": rng.choice(["My name is {n}.", "I am {n}.", "Hello, I am {n}."]).format(n=name),
        },
        {"role": "assistant", "content": f"Hello {name}."},
        *between.messages,
        {"role": "user", "content": rng.choice(["What is my name?", "Who am I?"])},
        {"role": "assistant", "content": f"You are {name}."},
    ]
    return Question("names", " ".join(t["content"] for t in turns), turns)


Maker = Callable[[random.Random], Question]
KINDS: dict[Maker, float] = {
    arithmetic: 0.5, calendar: 0.15, colours: 0.1, tool_call: 0.11, tool_result: 0.08, names: 0.06,
}  # fmt: skip
"""Makers of questions and their share."""
IDLE_TOOLS = 0.15
"""How often tools are offered with a question that needs none."""


def questions(
    seed: int, held_out: bool, kinds: Mapping[Maker, float] | None = None, easy: float = 0.0
) -> Iterator[Question]:
    """Endless questions of the training half, or of the held-out tenth.

    ``easy`` is the share of sums that are ``easy_arithmetic``: carrying is learnt sooner that way.
    """
    rng = random.Random(seed)
    kinds = kinds or KINDS
    makers, shares = list(kinds), list(kinds.values())
    while True:
        maker = rng.choices(makers, shares)[0]
        question = (easy_arithmetic if maker is arithmetic and rng.random() < easy else maker)(rng)
        if question.held_out == held_out:
            yield replace(question, tools=question.tools or rng.random() < IDLE_TOOLS)
