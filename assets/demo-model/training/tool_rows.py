"""The tools that training knows by name, one row each, and how their parameters are called. Data only."""

# ruff: noqa: E501

from __future__ import annotations

PARAMETERS: dict[str, tuple[str, ...]] = {
    "city": ("city", "city", "location", "place", "town"),
    "text": ("text", "message", "body", "content"),
    "query": ("query", "query", "q", "text", "term", "question"),
    "person": ("to", "recipient", "person", "name", "user"),
    "number_a": ("a", "a", "x", "first", "left"),
    "number_b": ("b", "b", "y", "second", "right"),
    "amount": ("amount", "value", "number", "quantity"),
    "unit_a": ("from", "from_unit", "source"),
    "unit_b": ("to", "to_unit", "target"),
    "language": ("language", "target", "to", "lang"),
    "minutes": ("minutes", "duration", "time"),
    "title": ("title", "song", "name", "track"),
    "path": ("path", "file", "filename", "name"),
}
NUMERIC = {"number_a", "number_b", "amount", "minutes"}
# names of the tool; its description; what is asked; the parameters in the order of the schema
KNOWN: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "get_weather get_weather weather current_weather getWeather fetch_weather get_forecast",
        "Get the weather in a city / Get the current weather / Weather for a place / Return the weather",
        "What is the weather in {city}? / What's the weather in {city}? / What is the weather like in {city}? / How is the weather in {city} today? / Weather in {city} / Tell me the weather in {city} / Get the weather for {city} / Is it raining in {city}?",
        ("city",),
    ),
    (
        "get_time current_time get_current_time time_in",
        "Get the time in a city / Return the current time",
        "What time is it in {city}? / What's the time in {city}? / Tell me the time in {city} / Time in {city}",
        ("city",),
    ),
    (
        "add add_numbers sum plus",
        "Add two numbers / Return the sum of two numbers",
        "What is {number_a} plus {number_b}? / Add {number_a} and {number_b} / {number_a} + {number_b} / What is {number_a} + {number_b}? / Sum {number_a} and {number_b}",
        ("number_a", "number_b"),
    ),
    (
        "multiply multiply_numbers times product",
        "Multiply two numbers / Return the product",
        "What is {number_a} times {number_b}? / Multiply {number_a} by {number_b} / Multiply {number_a} and {number_b} / {number_a} * {number_b}",
        ("number_a", "number_b"),
    ),
    (
        "search web_search search_web lookup look_up find",
        "Search the web / Look something up / Find documents",
        "Search for {query} / Search the web for {query} / Look up {query} / Find {query} / Find out about {query} / Search {query}",
        ("query",),
    ),
    (
        "send_message send_email message send_text notify",
        "Send a message to a person / Send somebody a text",
        "Send {person} the message {text} / Send a message to {person}: {text} / Tell {person} {text} / Message {person}: {text}",
        ("person", "text"),
    ),
    (
        "convert convert_units unit_converter",
        "Convert a value between units / Convert units",
        "Convert {amount} {unit_a} to {unit_b} / Convert {amount} {unit_a} into {unit_b} / How much is {amount} {unit_a} in {unit_b}?",
        ("amount", "unit_a", "unit_b"),
    ),
    (
        "translate translate_text translator",
        "Translate a text / Translate text into a language",
        "Translate {text} to {language} / Translate {text} into {language} / Translate this into {language}: {text}",
        ("text", "language"),
    ),
    (
        "set_timer start_timer timer",
        "Set a timer / Start a timer in minutes",
        "Set a timer for {minutes} minutes / Start a timer of {minutes} minutes / Timer for {minutes} minutes",
        ("minutes",),
    ),
    (
        "play play_music play_song",
        "Play a song / Play music",
        "Play {title} / Play the song {title} / I want to hear {title}",
        ("title",),
    ),
    (
        "read_file open_file read open",
        "Read a file / Open a file and return its text",
        "Read the file {path} / Open {path} / Read {path} / Show me the file {path}",
        ("path",),
    ),
)
