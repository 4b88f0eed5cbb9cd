"""mpirun's daemons on the hosts: missing, of another version, or never heard of."""

from __future__ import annotations

from mpi_agent.explain.symptoms.row import row
from mpi_agent.job.endings import Verdict
from mpi_agent.job.symptoms import Kind

__all__ = ["ROWS"]

_FAILED = Verdict.LAUNCH_FAILED

ROWS = (
    row(
        "daemon-root-refused",
        "prted has detected an attempt to run as root",
        stacks="Open MPI 5",
        verdict=_FAILED,
        cause="a worker's daemon refuses to run as root: the login there is root and the launcher"
        " is not, or its MPI is another version than the launcher's",
        remedy="log in to the workers as the launcher's user, with the same image on both sides; or"
        " set PRTE_ALLOW_RUN_AS_ROOT=1 and PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 for the workers",
        source="Open MPI 4.1.4 as launcher of 5.0.11, measured 2026-11; the same words with one"
        " version and a launcher that is not root",
    ),
    row(
        "daemon-version-differs",
        "orted: Error: unknown option",
        "cannot find proxy with ID",
        "unrecognized argument gpu-subdevs-per-proc",
        "detected a mismatch in versions between two processes",
        "ORTE_ERROR_LOG: Data unpack would read past end of buffer",
        stacks="Open MPI 4, Open MPI 5, MPICH",
        verdict=_FAILED,
        cause="a worker has another version of this MPI than the launcher",
        remedy="use one image, or one version of the MPI, for launcher and workers",
        source="Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2 and 5.0.2, measured 2026-11; horovod#368,"
        " ompi#13093",
    ),
    row(
        "daemon-missing",
        "orted: command not found",
        "orted: not found",
        "orted: No such file or directory",
        "prted: command not found",
        "prted: not found",
        "prted: No such file or directory",
        "hydra_pmi_proxy: command not found",
        "hydra_pmi_proxy: No such file or directory",
        "hydra_bstrap_proxy: command not found",
        "hydra_bstrap_proxy: No such file or directory",
        "Unable to run bstrap_proxy on {host} (pid {}, exit code 32512)",
        stacks="Open MPI 4, Open MPI 5, MPICH, Intel MPI",
        verdict=_FAILED,
        cause='mpirun\'s daemon is not where a login[ on "{host}"] looks for it',
        remedy="install the same MPI at the same path in the worker's image, or add its bin"
        " directory to the PATH of a login there",
        source="Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2, Intel MPI 2021.19, measured 2026-11",
    ),
    row(
        "ssh-client-missing",
        "execvp error on file ssh (No such file or directory)",
        'MCA parameter "plm_rsh_agent" was set to a path',
        "No available launching agents were found.",
        stacks="Open MPI 4, Open MPI 5, MPICH",
        verdict=_FAILED,
        cause="the launcher's image has no ssh client",
        remedy="install openssh-client in the launcher's image",
        source="Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2 and 5.0.2, measured 2026-11",
    ),
    row(
        "kubectl-missing",
        "/opt/kube/kubectl: not found",
        "/opt/kube/kubectl: No such file or directory",
        stacks="mpi-operator v1",
        verdict=_FAILED,
        cause="mpirun was to start its daemons by kubectl, as the operator's first API did, and it"
        " is not there",
        remedy="use the MPIJob API v2beta1, whose workers serve ssh (`mpi-agent worker`)",
        source="mpi-operator#501",
    ),
    row(
        "deepspeed-pdsh-arguments",
        "KeyError: 'PDSH_SSH_ARGS_APPEND'",
        stacks="DeepSpeed",
        verdict=_FAILED,
        cause="this DeepSpeed takes --ssh_port only where PDSH_SSH_ARGS_APPEND is set",
        remedy="leave --ssh_port out: under mpi-agent every ssh knows the port",
        source="DeepSpeed#5318",
    ),
    row(
        "batch-system-guessed",
        'usable "srun" command in its path',
        "srun: not found",
        "srun: command not found",
        stacks="Open MPI 4, Open MPI 5",
        verdict=_FAILED,
        cause="variables of Slurm made mpirun start its daemons with srun, which is not there",
        remedy="take SLURM_* out of the launcher's environment",
        source="Open MPI 4.1.4 and 5.0.11, measured 2026-11",
    ),
    row(
        "launcher-libraries-mixed",
        "mpirun: symbol lookup error: {...}: undefined symbol: {symbol}",
        "prterun: symbol lookup error: {...}: undefined symbol: {symbol}",
        "orterun: symbol lookup error: {...}: undefined symbol: {symbol}",
        stacks="Open MPI 4, Open MPI 5",
        verdict=_FAILED,
        cause="mpirun loads libraries of another MPI or PMIx, because LD_LIBRARY_PATH leads there",
        remedy="take the other MPI's directories out of LD_LIBRARY_PATH on the launcher",
        source="Open MPI 5.0.11 with LD_LIBRARY_PATH of 4.1.4, measured 2026-11",
    ),
    row(
        "pmix-out-of-resource",
        "PMIX ERROR: OUT-OF-RESOURCE in file",
        stacks="Open MPI 4, Open MPI 5, PMIx",
        verdict=_FAILED,
        cause="PMIx could not get shared memory or a file for its own data",
        remedy="give /dev/shm and TMPDIR more room, or set PMIX_MCA_gds=hash",
        source="singularity#5195, PMIx 2.2",
    ),
    row(
        "prte-daemon-not-started",
        "Remote host: {...}{host}\nDaemon exit status: {code}",
        stacks="Open MPI 5",
        is_last_word=True,
        kind=Kind.CONSEQUENCE,
        cause='mpirun\'s daemon on "{host}" did not come up, or was lost (status {code})',
        remedy="look for what ssh says: there it says why",
        source="Open MPI 5.0.11, measured 2026-11: the same text, with status 0, when a host is"
        " killed under a running job",
    ),
    row(
        "orte-daemon-not-started",
        "ORTE was unable to reliably start one or more daemons.",
        stacks="Open MPI 4",
        is_last_word=True,
        kind=Kind.CONSEQUENCE,
        cause="mpirun could not start its daemon on a host, or lost the ssh to one",
        remedy="look at the line before: ssh says there why",
        source="Open MPI 4.1.4, measured 2026-11: the same text when ssh's ServerAlive ends a"
        " running job",
    ),
    row(
        "intel-ssh-failed",
        "Unable to run bstrap_proxy on {host} (pid {}, exit code 65280)",
        stacks="Intel MPI",
        kind=Kind.SIGN,
        verdict=_FAILED,
        cause='ssh did not get onto "{host}", and Intel MPI does not show what it said',
        remedy="run `mpi-agent wait`, which tells name, port and login apart",
        source="Intel MPI 2021.19, measured 2026-11: 65280 is ssh's 255 as a raw wait status",
    ),
    row(
        "daemon-cannot-call-back",
        "unable to connect to server {host} at port {port} (check for firewalls!)",
        'unable to connect from "{}" to "{host}" (',
        "Unable to run bstrap_proxy on {} (pid {}, exit code 768)",
        stacks="MPICH, Intel MPI",
        verdict=_FAILED,
        cause='a worker\'s daemon cannot connect back to the launcher[ "{host}"]',
        remedy="allow connections from workers to the launcher in every NetworkPolicy, on all"
        " ports or on those of --port-range",
        source="mpich#4599, MPICH 3.3.2; Intel MPI 2021.19: 768 is 3 as a raw wait status",
    ),
    row(
        "hydra-lost-its-proxy",
        "assert (!closed) failed",
        "unable to write data to proxy",
        "Launch proxy failed.",
        "write error (Bad file descriptor)",
        "one of the processes terminated badly; aborting",
        stacks="MPICH, Intel MPI",
        is_last_word=True,
        kind=Kind.CONSEQUENCE,
        cause="mpiexec or one of its proxies lost its connection, because something ended before"
        " or never came up",
        remedy="look for what ended first; with nothing else, check that the working directory"
        " exists on every worker",
        source="MPICH 4.0.2 and 5.0.2, Intel MPI 2021.19, measured 2026-11",
    ),
    row(
        "orte-no-route",
        "does not know how to route a message to the specified daemon",
        stacks="Open MPI 4",
        kind=Kind.CONSEQUENCE,
        verdict=_FAILED,
        cause="a daemon never connected back to mpirun",
        remedy="look at the lines before; with nothing else, the launcher's own name does not"
        " resolve",
        source="Open MPI 4.1.4, measured 2026-11",
    ),
)
