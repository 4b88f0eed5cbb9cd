"""What the launchers themselves say of ranks and daemons, read from the kept output.

A program may print anything, also what a launcher says. So a sentence counts in its full recorded
form alone: a banner with the rules above and below it, a line from its first character to its last;
on the stream on which it was recorded, where the streams can be told apart; and without a rank's
tag, except for what a rank's own library says. What it then may decide stands in `explain.ending`:
words make a known failure more precise; a success they deny only by saying that a daemon is gone.

About ten of these sentences stand in `explain.symptoms` as well, by a piece of them: there only a
cause is looked for, in logs that may be cut, tagged or merged. Who changes one looks at the other.

Source: tests/corpus/, Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2, Intel MPI 2021.19, OpenSSH 9.2,
2026-11; Open MPI 5.0.7, 2026-11-30, a program that is missing or may not be executed; MPICH 5.0.2,
2026-11-30, `mpiexec -n 3` with a rank that kills itself, a missing program and a killed host.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from mpi_agent.explain.launcher_reports import (
    DaemonFate,
    DaemonWord,
    LauncherWords,
    RankFailure,
    Unstarted,
)
from mpi_agent.job.output import Output, OutputLine, Stream

__all__ = ["read_words"]

_Word = RankFailure | DaemonWord | Unstarted
_Reader = Callable[[re.Match[str]], _Word]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """How something is said.

    Attributes:
        pattern: of the whole line, or of a banner's text with single blanks.
        is_of_rank: a rank's library says it, so that it may carry the rank's tag and comes on
            stderr or, through a help system, beside it.
    """

    pattern: re.Pattern[str]
    read: _Reader
    stream: Stream = Stream.STDERR
    is_of_rank: bool = False


def _low_byte(text: str) -> int:
    """Return what of an MPI error code reaches a parent."""
    return int(text) & 0xFF


_BANNERS = (
    _Form(
        pattern=re.compile(
            r"\S+ noticed that process rank (\d+) with PID \d+ on node (\S+) exited on signal "
            r"(\d+) \(.*\)\."
        ),
        read=lambda m: RankFailure(rank=int(m[1]), host=m[2], signal=int(m[3]), is_first=True),
    ),
    _Form(
        pattern=re.compile(
            r"\S+ detected that one or more processes exited with non-zero status, thus causing "
            r"the job to be terminated\. The first process to do so was: "
            r"Process name: \[(?:\[\d+,\d+\]|\S+@\d+),(\d+)\] Exit code: (\d+)"
        ),
        read=lambda m: RankFailure(rank=int(m[1]), code=int(m[2]), is_first=True),
    ),
    _Form(
        pattern=re.compile(
            r"MPI_ABORT was invoked on rank (\d+) in communicator .+? "
            r"(?:with errorcode|Proc: \S+ Errorcode:) (-?\d+)\.? NOTE: .*"
        ),
        read=lambda m: RankFailure(
            rank=int(m[1]), code=_low_byte(m[2]), called_abort=True, is_first=True
        ),
        is_of_rank=True,
    ),
    _Form(
        pattern=re.compile(
            r"\S+ has exited due to process rank (\d+) with PID \d+ on node (\S+) calling "
            r'"abort"\. .*'
        ),
        read=lambda m: RankFailure(rank=int(m[1]), host=m[2], called_abort=True, is_first=True),
    ),
    _Form(
        pattern=re.compile(
            r"(?:ORTE|PRTE) has lost communication with a remote daemon\. "
            r"HNP daemon : \S+ on node \S+ Remote daemon: \S+ on node (\S+) This is usually due to "
            r".*"
        ),
        read=lambda m: DaemonWord(fate=DaemonFate.LOST, host=m[1], denies_success=True),
    ),
    _Form(
        pattern=re.compile(
            r"A daemon failed to report back after being spawned\. .* Local host: \S+ "
            r"Remote host: (\S+) Daemon exit status: \d+ .*"
        ),
        read=lambda m: DaemonWord(fate=DaemonFate.GONE, host=m[1], denies_success=True),
        stream=Stream.STDOUT,
    ),
    _Form(
        pattern=re.compile(r"ORTE was unable to reliably start one or more daemons\. .*"),
        read=lambda _: DaemonWord(fate=DaemonFate.GONE),
    ),
    _Form(
        pattern=re.compile(
            r"\S+ was unable to launch the specified application as it "
            r"(?:could not access (?:or execute )?|lacked permissions to execute )an executable: "
            r"Executable: (.+) Node: (\S+) "
            r"while attempting to start process rank \d+\."
        ),
        read=lambda m: Unstarted(program=m[1], host=m[2]),
    ),
    _Form(
        pattern=re.compile(
            r"\S+ was unable to find the specified executable file, and therefore did not launch "
            r"the job\. .* Node: (\S+) Executable: (.+)"
        ),
        read=lambda m: Unstarted(program=m[2], host=m[1]),
    ),
    _Form(
        pattern=re.compile(
            r"BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES RANK (\d+) PID \d+ RUNNING AT "
            r"(\S+) KILLED BY SIGNAL: (\d+) \(.*\)"
        ),
        read=lambda m: RankFailure(rank=int(m[1]), host=m[2], signal=int(m[3])),
        stream=Stream.STDOUT,
    ),
    _Form(
        pattern=re.compile(
            r"BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES PID \d+ RUNNING AT (\S+) "
            r"EXIT CODE: (\d+) CLEANING UP REMAINING PROCESSES "
            r"YOU CAN IGNORE THE BELOW CLEANUP MESSAGES"
        ),
        read=lambda m: RankFailure(host=m[1], signal=int(m[2])),
        stream=Stream.STDOUT,
    ),
)
"""What stands between two rules.

MPICH's number is a signal: for a rank that ends by a code there is no such banner (MPICH 4.0.2 and
5.0.2, codes 7, 15 and 255, 2026-11-30).
"""

_LINES = (
    _Form(
        pattern=re.compile(
            r"Abort\(-?\d+\) on node (\d+) \(rank \d+ in comm \d+\): "
            r"application called MPI_Abort\(.*, (-?\d+)\)(?: - process \d+)?"
        ),
        read=lambda m: RankFailure(
            rank=int(m[1]), code=_low_byte(m[2]), called_abort=True, is_first=True
        ),
        is_of_rank=True,
    ),
    _Form(
        pattern=re.compile(
            r"\[proxy:\d+(?::\d+)?@(\S+)\] \S+ \(\S+\): execvp error on file (.+) \((.+)\)"
        ),
        read=lambda m: Unstarted(host=m[1], program=m[2], why=m[3]),
    ),
    _Form(
        pattern=re.compile(
            r"\[mpiexec@\S+\] Error: Unable to run bstrap_proxy on (\S+) \(pid \d+, exit code \d+\)"
        ),
        read=lambda m: DaemonWord(fate=DaemonFate.UNSTARTED, host=m[1]),
    ),
    _Form(
        pattern=re.compile(r"\[mpiexec@\S+\] \S+ \(\S+\): cannot find proxy with ID \d+"),
        read=lambda _: DaemonWord(fate=DaemonFate.UNSTARTED),
    ),
    _Form(
        pattern=re.compile(r"\[mpiexec@\S+\] control_cb \(\S+\): assert \(!closed\) failed"),
        read=lambda _: DaemonWord(fate=DaemonFate.GONE),
    ),
    _Form(
        pattern=re.compile(r"\[mpiexec@\S+\] Error: Downstream from host (\S+) exited abnormally"),
        read=lambda m: DaemonWord(fate=DaemonFate.LOST, host=m[1]),
    ),
    _Form(
        pattern=re.compile(r"Connection to (\S+) closed by remote host\."),
        read=lambda m: DaemonWord(fate=DaemonFate.CLOSED, host=m[1]),
    ),
    _Form(
        pattern=re.compile(r"Timeout, server (\S+) not responding\."),
        read=lambda m: DaemonWord(fate=DaemonFate.CLOSED, host=m[1]),
    ),
    _Form(
        pattern=re.compile(
            r'mpi-agent ssh: cannot run a command on "(\S+)": '
            r"the connection was lost before the command ended"
        ),
        read=lambda m: DaemonWord(fate=DaemonFate.CLOSED, host=m[1]),
    ),
)

_TAG = re.compile(r"\[\d+,\d+\]<std(?:out|err)>: ?|\[\d+\] ")
"""Source: `--tag-output` of Open MPI 4.1.4 and 5.0.11, `-l` of Hydra, 2026-11."""
_RULE = re.compile(r"(?:-{60,80}|={60,100})")
_LONGEST_BANNER = 800
"""In words; what is longer is no launcher's."""


def read_words(output: Output) -> LauncherWords:
    """Return what launchers said, in the order of the output, each stream by itself."""
    words = [
        word
        for stream in Stream
        for word in _words_of([line for line in output.lines if line.stream is stream])
    ]
    return LauncherWords(
        failures=_merged([word for word in words if isinstance(word, RankFailure)]),
        daemons=tuple(dict.fromkeys(word for word in words if isinstance(word, DaemonWord))),
        unstarted=tuple(dict.fromkeys(word for word in words if isinstance(word, Unstarted))),
    )


def _words_of(lines: list[OutputLine]) -> Iterator[_Word]:
    """Yield what stands in the lines of one stream; a banner counts where it ends."""
    banner: list[str] = []
    tags: set[str] = set()
    is_open = False
    for line in lines:
        tag, text = _without_tag(line.text)
        if _RULE.fullmatch(text):
            if is_open and (word := _word(" ".join(banner), line.stream, tags, _BANNERS)):
                yield word
            banner, tags, is_open = [], {tag}, True
            continue
        if word := _word(text, line.stream, {tag}, _LINES):
            yield word
        elif is_open:
            banner += text.lstrip("= ").split()
            tags.add(tag)
            is_open = len(banner) <= _LONGEST_BANNER


def _without_tag(text: str) -> tuple[str, str]:
    text = text.strip("\r\n \t\0")  # Open MPI 5.0.11 writes the end of its string, too
    tag = _TAG.match(text + " ")
    return (tag[0], text[tag.end() :].strip()) if tag else ("", text)


def _word(text: str, stream: Stream, tags: set[str], forms: tuple[_Form, ...]) -> _Word | None:
    for form in forms:
        has_its_stream = stream in (form.stream, Stream.MERGED)
        is_its_own = tags == {""} or (form.is_of_rank and len(tags) == 1)
        if has_its_stream and is_its_own and (match := form.pattern.fullmatch(text)):
            return form.read(match)
    return None


def _merged(failures: list[RankFailure]) -> tuple[RankFailure, ...]:
    """Return failures with what Open MPI 5 says of one MPI_Abort in two banners put together."""
    hosts = {f.rank: f.host for f in failures if f.called_abort and f.host}
    codes = {f.rank for f in failures if f.called_abort and f.code is not None}
    kept = [
        replace(f, host=hosts.get(f.rank, "")) if f.called_abort and not f.host else f
        for f in failures
        if not (f.called_abort and f.code is None and f.rank in codes)
    ]
    return tuple(dict.fromkeys(kept))
