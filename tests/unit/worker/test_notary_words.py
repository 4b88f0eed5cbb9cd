"""The lines between a worker and its notary."""

from __future__ import annotations

import pytest

from mpi_agent.worker.notary_words import (
    Answer,
    CertificateQuestion,
    IdentityQuestion,
    LoginQuestion,
    Question,
    parse_answer,
    parse_question,
    render_answer,
    render_question,
)

QUESTIONS = [
    IdentityQuestion(
        directory="/run/mpi-agent",
        job_key=None,
        origin="",
        principals=("pi-worker-0", "10.0.0.7"),
        lifetime_s=60.0,
    ),
    CertificateQuestion(
        directory="/run/mpi agent",
        job_key="/run/mpi agent/job_key",
        origin="/root/.ssh/id_rsa",
        principals=("prüfung",),
        lifetime_s=0.5,
    ),
    LoginQuestion(
        address="10.0.0.7",
        port=2222,
        user="mpiuser",
        job_key="/run/mpi-agent/job_key",
        job_public="ssh-ed25519 AAAA",
        alias="pi-worker-0",
        limit_s=15.0,
    ),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.verb)
def test_a_question_is_read_as_it_was_asked(question: Question) -> None:
    """With its number, on one line."""
    line = render_question(7, question)

    assert parse_question(line) == (7, question)
    assert line.count(b"\n") == 1


@pytest.mark.parametrize(
    "answer",
    [
        Answer(number=1, public="ssh-ed25519 AAAA"),
        Answer(number=2, refusal="it broke off:\nso it did"),
        Answer(number=3, error="HostKeyError", summary="cannot", hint="do"),
    ],
    ids=["public", "refusal", "error"],
)
def test_an_answer_is_read_as_it_was_given(answer: Answer) -> None:
    """On one line, whatever it quotes."""
    line = render_answer(answer)

    assert parse_answer(line) == answer
    assert line.count(b"\n") == 1


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"[]", b'"x"', b"{}", b'{"number":1,"verb":"sing"}', b'{"number":1,"x":2}']
)
def test_another_line_is_nobodys(line: bytes) -> None:
    """What a child prints that is no notary, and the end of its output."""
    for parse in (parse_question, parse_answer):
        with pytest.raises(ValueError, match=r"."):
            parse(line)
