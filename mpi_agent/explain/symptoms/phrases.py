"""A failure's words, written as they are printed, with names in braces where they differ.

`ssh: connect to host {host} port {}: Connection refused` is one phrase. `{host}` stands for one
word, which a cause may use, and `{}` for one that it does not; `{why...}` and `{...}` stand for as
much of the line as is needed. A line's end stands for a line's end, the blanks around it and one
empty line if there is one; `^` in front and `$` behind stand for the line's own beginning and end.
All else stands for itself.

What stands for words is bounded, so that no text, however hostile, makes a search slow.
"""

from __future__ import annotations

import re

__all__ = ["compile_phrases", "fill", "longest_literal"]

_HOLE = re.compile(r"\{(\w*)(\.\.\.)?\}|\n|\A\^|\$\Z")
_WORD, _REST = r"[^\s'\",]{1,256}?", r"[^\n]{0,200}?"
_LINE_END = r"[ \t]{0,8}(?:\n[ \t=]{0,16}){1,2}"  # Hydra frames its lines with signs of equality
_WORD_END = r"(?=[\s'\",]|[.:;)\]](?:\s|$)|$)"
_SHORTEST_LITERAL = 6
_PART = re.compile(r"\[([^\]]*)\]")
_NAME = re.compile(r"\{(\w+)\}")


def compile_phrases(texts: tuple[str, ...]) -> re.Pattern[str]:
    """Return one pattern that matches where one of the texts stands.

    A name is a group of its own in each text: `host_0` in the first, `host_1` in the second.

    Raises:
        ValueError: a text has no part of at least six characters that never differs, so that it
            would be searched for in every line.
    """
    for text in texts:
        if len(longest_literal(text)) < _SHORTEST_LITERAL:
            raise ValueError(f"nothing to look for in {text!r}")
    parts = (_expression(text, number) for number, text in enumerate(texts))
    return re.compile("|".join(parts), re.MULTILINE)


def longest_literal(text: str) -> str:
    """Return the longest part of a phrase that is the same wherever it stands."""
    return max(_HOLE.split(text)[::3], key=len)


def fill(sentence: str, match: re.Match[str]) -> str:
    """Return a sentence with its names filled in from what was matched.

    A part in brackets is left out where a name in it is not told, and may say what stands there
    then: `[rank {rank}|a rank][ on "{host}"] crashed`. `{words}` is all that was matched.
    """
    told = {
        name.rpartition("_")[0]: value.strip().rstrip(".:;")
        for name, value in match.groupdict().items()
        if value
    }
    told["words"] = match[0].strip()

    def part(found: re.Match[str]) -> str:
        said, _, otherwise = found[1].partition("|")
        return said if set(_NAME.findall(said)) <= set(told) else otherwise

    return _NAME.sub(lambda hole: told.get(hole[1], "?"), _PART.sub(part, sentence))


def _expression(text: str, number: int) -> str:
    parts, at = [], 0
    for hole in _HOLE.finditer(text):
        parts += [re.escape(text[at : hole.start()]), _hole_expression(hole, number)]
        at = hole.end()
    ends_with_word = at == len(text) and text.endswith("}")
    return "".join([*parts, re.escape(text[at:]), _WORD_END if ends_with_word else ""])


def _hole_expression(hole: re.Match[str], number: int) -> str:
    match hole[0]:
        case "\n":
            return _LINE_END
        case "^":
            return "^"
        case "$":
            return r"[ \t\r]*$"
    inner = _REST if hole[2] else _WORD
    return f"(?P<{hole[1]}_{number}>{inner})" if hole[1] else f"(?:{inner})"
