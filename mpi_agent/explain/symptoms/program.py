"""The program itself: what it lacks, what it raised."""

from __future__ import annotations

from mpi_agent.explain.symptoms.row import row
from mpi_agent.job.endings import Verdict
from mpi_agent.job.symptoms import Kind

__all__ = ["ROWS"]

_FAILED = Verdict.PROGRAM_FAILED

ROWS = (
    row(
        "library-missing",
        "error while loading shared libraries: {library}: cannot open shared object file",
        "OSError: {library}: cannot open shared object file",
        "ImportError: {library}: cannot open shared object file",
        stacks="Linux, Python",
        verdict=_FAILED,
        cause='the library "{library}" is not found on a host',
        remedy="install it in the workers' image, and see that LD_LIBRARY_PATH reaches the ranks"
        " (`mpi-agent plan --environment`)",
        source="glibc 2.36 under MPICH 4.0.2 and Intel MPI 2021.19, Python 3.11, measured 2026-11",
    ),
    row(
        "library-too-old",
        "{library}: version `{version}' not found (required by {program})",
        stacks="Linux",
        verdict=_FAILED,
        cause='"{program}" was built against a newer {library}, with {version}',
        remedy="build it in the image that it runs in, or use a newer one",
        source="glibc 2.36, measured 2026-11",
    ),
    row(
        "library-of-other-version",
        "symbol lookup error: {library}: undefined symbol: {symbol}",
        "ImportError: {library}: undefined symbol: {symbol}",
        stacks="Linux, Python",
        verdict=_FAILED,
        cause='"{library}" does not fit the libraries it finds (no {symbol})',
        remedy="see that LD_LIBRARY_PATH does not lead to another version, and build against the"
        " image's own",
        source="glibc 2.36, Python 3.11, measured 2026-11",
    ),
    row(
        "mpi-of-other-version",
        "opal_shmem_base_select failed",
        "orte_init:startup:internal-failure\nBut I couldn't open the help file:",
        stacks="Open MPI 5",
        verdict=_FAILED,
        cause="a host's MPI library does not belong to this mpirun and cannot set itself up",
        remedy="use one image for launcher and workers, and take other MPIs out of LD_LIBRARY_PATH",
        source="Open MPI 5.0.11 with a library of 4.1 on one worker, measured 2026-11",
    ),
    row(
        "mpi-init-failed",
        "It looks like MPI_INIT failed for some reason",
        "It looks like orte_init failed for some reason",
        "Local abort before MPI_INIT completed",
        "An error occurred in MPI_Init",
        stacks="Open MPI 4, Open MPI 5",
        kind=Kind.CONSEQUENCE,
        cause="a rank could not start MPI",
        remedy="look at the lines before, which say why",
        source="Open MPI 4.1.4 and 5.0.11, measured 2026-11",
    ),
    row(
        "python-module-missing",
        "ModuleNotFoundError: No module named '{module}'",
        stacks="Python",
        verdict=_FAILED,
        cause='the Python module "{module}" is not installed where the ranks run',
        remedy="install it in the workers' image, and see that PATH and PYTHONPATH reach the ranks",
        source="Python 3.11, measured 2026-11",
    ),
    row(
        "program-not-found",
        "bash: line {}: {program}: command not found",
        "exec: {program}: not found",
        "/usr/bin/env: ‘{program}’: No such file or directory",
        "{program}: cannot execute: required file not found",
        stacks="bash, Linux",
        kind=Kind.SIGN,
        verdict=Verdict.LAUNCH_FAILED,
        cause='"{program}", or what its first line calls, is not found on a host',
        remedy="check its path, its first line (#!) and the PATH of a login on the workers",
        source="bash 5.2 and coreutils 9.1, measured 2026-11",
    ),
    row(
        "message-truncated",
        "MPI_ERR_TRUNCATE: message truncated",
        "Message truncated, error stack",
        stacks="Open MPI 4, Open MPI 5, MPICH, Intel MPI",
        verdict=_FAILED,
        cause="a rank received a longer message than it had room for",
        remedy="see that both sides agree on count and type, and that no collective is called in"
        " another order",
        source="mpi4py 4.1 on Open MPI 4.1.4 and 5.0.11, MPICH 5.0.2, Intel MPI 2021.19,"
        " measured 2026-11",
    ),
    row(
        "fortran-runtime-error",
        "^Fortran runtime error: {why...}$",
        "^forrtl: severe ({number}): {why...}$",
        stacks="gfortran, Intel Fortran",
        last_counts=True,
        verdict=_FAILED,
        cause="Fortran's runtime ended a rank: {why}",
        remedy="see the file and line beside it; a stack that is too small needs ulimit -s"
        " unlimited",
        source="WW3#770, gfortran 8.5; fds#1377, Intel Fortran",
    ),
    row(
        "heap-corrupted",
        "^free(): double free detected in tcache 2$",
        "^free(): invalid ",
        "^malloc(): ",
        "^munmap_chunk(): invalid pointer$",
        "^corrupted size vs. prev_size",
        "*** stack smashing detected ***",
        stacks="glibc",
        verdict=_FAILED,
        cause="the program wrote outside of its own memory",
        remedy="run it under AddressSanitizer or valgrind; a library built for another MPI does"
        " this too",
        source="glibc 2.36, measured 2026-11",
    ),
    row(
        "cpp-exception",
        "terminate called after throwing an instance of '{kind...}'",
        "terminate called without an active exception",
        stacks="C++",
        last_counts=True,
        kind=Kind.SIGN,
        verdict=_FAILED,
        cause="nobody caught a C++ exception[ ({kind})]",
        remedy="see the line `what():` below it and the lines before",
        source="libstdc++ of GCC 12, measured 2026-11",
    ),
    row(
        "python-exception",
        "^{}Error: {...}$",
        "^{}Exception: {...}$",
        stacks="Python",
        last_counts=True,
        kind=Kind.SIGN,
        verdict=_FAILED,
        cause="a rank raised an exception, {words}",
        remedy="see the traceback above it",
        source="Python 3.11 under Open MPI 5.0.11, MPICH 5.0.2 and Intel MPI 2021.19, measured"
        " 2026-11",
    ),
)
