"""The worker's notary: a child process that makes, certifies and tries the worker's identity.

Cryptography costs 20 MB of memory that a worker needs for a moment only, so it is loaded in a
child, which is started when there is something to ask and ended when there is not. Its questions
and answers are lines of JSON; keys pass between the two as files alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Mapping

from mpi_agent.errors import HostKeyError, MpiAgentError, StateDirectoryError
from mpi_agent.worker.notary_start import no_help, start_notary
from mpi_agent.worker.notary_words import (
    Answer,
    IdentityQuestion,
    LoginQuestion,
    Question,
    parse_answer,
    render_question,
)

__all__ = ["Notary"]

_ANSWER_LIMIT_S = 60.0
_END_LIMIT_S = 2.0
_PAUSE_S = 0.002


class Notary:
    """Asks a child process; one question at a time.

    Args:
        environ: in which a child is started.
        process: a child that was started before, to have it ready early.
    """

    def __init__(
        self, environ: Mapping[str, str], process: subprocess.Popen[bytes] | None = None
    ) -> None:
        self._environ = environ
        self._process = process
        self._answers: asyncio.StreamReader | None = None
        self._transport: asyncio.ReadTransport | None = None
        self._number = 0
        self._turn = asyncio.Lock()

    async def make_identity(self, question: IdentityQuestion) -> str:
        """Have a host key made and certified; return the public half of the job's key.

        Empty where the job's private key is not here.

        Raises:
            HostKeyError: the job's key cannot be used, or the child failed.
            StateDirectoryError: the files cannot be written.
        """
        return (await self.ask(question)).public

    async def try_login(self, question: LoginQuestion) -> str | None:
        """Return why a login fails, None when it does not."""
        try:
            return (await self.ask(question, limit_s=question.limit_s + _ANSWER_LIMIT_S)).refusal
        except MpiAgentError as error:
            return error.summary

    async def ask(self, question: Question, *, limit_s: float = _ANSWER_LIMIT_S) -> Answer:
        """Return the answer to a question; whoever asks meanwhile waits.

        Raises:
            HostKeyError, StateDirectoryError: what kept the child from it, or its own end.
        """
        async with self._turn:
            try:
                async with asyncio.timeout(limit_s):
                    answer = await self._ask(question)
            except (OSError, ValueError) as error:
                late = isinstance(error, TimeoutError)
                why = f"no answer within {limit_s:g} s" if late else "it ended before it answered"
                await self._end()
                raise no_help(question.verb, why) from error
        if answer.error is not None:
            kind = StateDirectoryError if answer.error == "StateDirectoryError" else HostKeyError
            raise kind(answer.summary, hint=answer.hint)
        return answer

    async def end(self) -> None:
        """End the child, with all that it loaded; the next question starts another one."""
        async with self._turn:
            await self._end()

    async def _ask(self, question: Question) -> Answer:
        """Return the answer; those to questions that nobody waits for any more are passed over."""
        process, answers = await self._running(question.verb)
        self._number += 1
        assert process.stdin is not None
        process.stdin.write(render_question(self._number, question))
        while True:
            answer = parse_answer(await answers.readline())
            if answer.number == self._number:
                return answer

    async def _running(self, verb: str) -> tuple[subprocess.Popen[bytes], asyncio.StreamReader]:
        if self._process is None:
            self._process = start_notary(self._environ, verb=verb)
        if self._answers is None:
            answers = self._answers = asyncio.StreamReader()
            self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(answers), self._process.stdout
            )
        return self._process, self._answers

    async def _end(self) -> None:
        """Close the child's input, which ends it, and wait until it is gone."""
        process, transport = self._process, self._transport
        self._process = self._answers = self._transport = None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_END_LIMIT_S):
                await _until_gone(process)
        except TimeoutError:
            process.kill()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_LIMIT_S):
                    await _until_gone(process)
        (process.stdout if transport is None else transport).close()


async def _until_gone(process: subprocess.Popen[bytes]) -> None:
    """Return once the child is reaped, by whomever: the worker reaps all that is left to it."""
    while process.poll() is None:
        await asyncio.sleep(_PAUSE_S)
