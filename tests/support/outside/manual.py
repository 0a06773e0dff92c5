"""A long real text with pages: parts of Python's reference, and questions about it."""

from pydoc_data.topics import topics

_PARTS = (
    *("assignment", "calls", "comparisons", "compound", "debugger", "execmodel"),
    *("formatstrings", "import", "operator-summary", "specialnames", "string-methods"),
    *("strings", "types", "typesmapping", "typesseq"),
)
_LINES_PER_PAGE = 50

# Questions, and words of the page that answers each.
QUESTIONS = (
    ("Which debugger command shows me the stack?", "Print a stack trace, with the most recent"),
    (
        "How do I leave the debugger?",
        "Quit from the debugger. The program being executed is aborted.",
    ),
    (
        "Can a breakpoint be removed after it was hit once?",
        "Temporary breakpoint, which is removed",
    ),
    ("How are two lists compared with each other?", "Sequences compare lexicographically"),
    ("Is NaN equal to itself?", "not-a-number values"),
    ("What happens if a finally block has a return?", "the saved exception is discarded"),
    ("When does a pattern always match?", "Patterns whose left-hand side is irrefutable"),
    (
        "Are duplicate keys allowed in a mapping pattern?",
        "If duplicate keys are detected in the mapping",
    ),
    (
        "What does an asynchronous context manager suspend?",
        "that is able to suspend execution in its",
    ),
    ("When are default parameter values evaluated?", "when the function definition is executed"),
    (
        "What does the with statement save and restore?",
        "saving and restoring various kinds of global",
    ),
    (
        "Why is a list a bad default for a parameter?",
        "mutable object, such as a list or a dictionary",
    ),
    ("What is the precedence of the operators?", "Operators in the same box group left to right"),
    (
        "Which type specifier shows a decimal number?",
        "Decimal Integer. Outputs the number in base 10",
    ),
    ("How can I format a number as a percentage?", "Percentage. Multiplies the number by 100"),
    ("How do I use a comma as thousands separator?", "signals the use of a comma for a thousands"),
    ("What error does importing a missing name raise?", "if the attribute is not found,"),
    ("How does __new__ create an instance?", "create a new instance of the class by invoking"),
    ("When is __del__ called?", "Called when the instance is about to be destroyed"),
    (
        "What must equal objects have in common to be keys of a dictionary?",
        "objects which compare equal have the same hash value",
    ),
    ("How can I save memory for attributes of many instances?", "The space saved over using"),
    ("How are metaclass conflicts resolved?", "which is a subtype of all of these candidate"),
    (
        "Can a descriptor be deleted from an instance?",
        "Called to delete the attribute on an instance",
    ),
    ("What is __missing__ for?", "when key is not in the dictionary"),
    (
        "Which method makes a string lower case?",
        "all the cased characters [4] converted to lowercase",
    ),
    ("How can I split text at each separator?", "consecutive delimiters are not grouped together"),
    (
        "How do I remove whitespace from the left?",
        "Return a copy of the string with leading characters removed",
    ),
    ("Does title casing handle apostrophes?", "a workaround for apostrophes can be constructed"),
    ("What does the escape for carriage return look like?", "ASCII Carriage Return (CR)"),
    ("Can a byte array be hashed?", "Aside from being mutable (and hence unhashable)"),
    ("Are there two types of integers?", "Python distinguishes between integers, floating"),
    ("Why is joining strings in a loop slow?", "will have a quadratic runtime cost"),
    (
        "What happens to key order when dictionaries are updated?",
        "Dictionaries preserve insertion order",
    ),
    ("How do I merge two dictionaries?", "with the merged keys and values"),
    ("What is the default start of a range?", "The value of the start parameter (or"),
    ("Where are tracebacks available to the program?", "the stack trace is made available to the"),
    ("Which names does a star import bind?", "binds all names defined in the imported module"),
    ("What is a free variable?", "If a variable is used in a code block but not defined there"),
    (
        "How can keyword arguments be unpacked from a mapping?",
        "each key in this mapping must be a string",
    ),
)


def manual_pages() -> list[str]:
    """Return pages of fifty lines."""
    lines = "\n\n".join(topics[part] for part in _PARTS).split("\n")
    starts = range(0, len(lines), _LINES_PER_PAGE)
    return ["\n".join(lines[start : start + _LINES_PER_PAGE]) for start in starts]


def plain(text: str) -> str:
    """Return a text in one line, without marks of names and code."""
    return " ".join(text.replace("*", "").replace('"', "").split())
