"""What the worker and its notary say to each other, as values and as lines of JSON.

The worker asks, one line a question; the notary answers each by one line with the same number, in
the order in which they came. Keys are named by their paths and never written into a line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeVar

__all__ = [
    "Answer",
    "CertificateQuestion",
    "IdentityQuestion",
    "LoginQuestion",
    "Question",
    "parse_answer",
    "parse_question",
    "render_answer",
    "render_question",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Something that the notary is to do."""

    verb: ClassVar[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityQuestion(Question):
    """Make a host key; certify it if the job's private key is here.

    Attributes:
        directory: the private one, into which the files are written.
        job_key: our copy; None when only its public half is here.
        origin: where the copy was taken from, for messages.
        principals: names and addresses for which the certificate is to be valid.
        lifetime_s: of the certificate.
    """

    verb: ClassVar[str] = "identity"
    directory: str
    job_key: str | None
    origin: str
    principals: tuple[str, ...]
    lifetime_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateQuestion(Question):
    """Certify the host key that is there once more; attributes as in `IdentityQuestion`."""

    verb: ClassVar[str] = "certificate"
    directory: str
    job_key: str
    origin: str
    principals: tuple[str, ...]
    lifetime_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginQuestion(Question):
    """Log in as the launcher will: with the job's key, insisting on the certificate.

    Attributes:
        job_key: path of our copy.
        job_public: `TYPE BASE64` of its public half, the only authority for host keys.
        alias: for which the host's certificate must be valid.
        limit_s: until it counts as failed.
    """

    verb: ClassVar[str] = "login"
    address: str
    port: int
    user: str
    job_key: str
    job_public: str
    alias: str
    limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a question.

    Attributes:
        number: of the question.
        public: the public half of the job's key, `TYPE BASE64`; empty where it was not asked for.
        refusal: why a login failed; None when it did not.
        error: name of the class of the error that kept the notary from it; None without one.
        summary: of the error, as is its hint.
    """

    number: int
    public: str = ""
    refusal: str | None = None
    error: str | None = None
    summary: str = ""
    hint: str = ""


_QUESTIONS: Mapping[str, type[Question]] = {
    question.verb: question for question in (IdentityQuestion, CertificateQuestion, LoginQuestion)
}
_Value = TypeVar("_Value")


def render_question(number: int, question: Question) -> bytes:
    """Return a question as a line."""
    return _render({"number": number, "verb": question.verb, **asdict(question)})


def parse_question(line: bytes) -> tuple[int, Question]:
    """Return a question and its number.

    Raises:
        ValueError: it is no line of ours.
    """
    values = _parse(line)
    number, verb = values.pop("number", None), values.pop("verb", None)
    if not isinstance(number, int) or verb not in _QUESTIONS:
        raise ValueError("no question of a worker")
    if "principals" in values:
        values["principals"] = tuple(values["principals"])
    return number, _make(_QUESTIONS[verb], values)


def render_answer(answer: Answer) -> bytes:
    """Return an answer as a line."""
    return _render(asdict(answer))


def parse_answer(line: bytes) -> Answer:
    """Return an answer.

    Raises:
        ValueError: it is no line of ours.
    """
    return _make(Answer, _parse(line))


def _render(values: Mapping[str, object]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


def _parse(line: bytes) -> dict[str, Any]:
    values = json.loads(line)
    if not isinstance(values, dict):
        raise ValueError("no line of a worker and its notary")
    return values


def _make(kind: type[_Value], values: dict[str, Any]) -> _Value:
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(str(error)) from error
