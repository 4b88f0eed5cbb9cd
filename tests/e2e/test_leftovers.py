"""What counts as left of a program on a worker, by command lines that were seen there.

Recorded on 2026-11-30 with `podman top`, in the reference images; long lines are shortened.
"""

from __future__ import annotations

import pytest

from tests.e2e.leftovers import is_of_a_program

_OF_A_PROGRAM = {
    "Open MPI 4.1.4": "orted --daemonize -mca ess env -mca ess_base_vpid 1 -mca plm rsh"
    " -mca plm_rsh_args -F /tmp/mpi-agent-1000/ssh_config -mca pmix ^s1,s2,cray,isolated ",
    "Open MPI 5.0.7": "/usr/bin/prted --daemonize --prtemca ess env --prtemca plm_ssh_args -F"
    " /tmp/mpi-agent-1000/ssh_config --prtemca plm_ssh_agent /bin/sh"
    " /tmp/mpi-agent-1000/ssh_client ",
    "MPICH 4.2.1": "/usr/bin/hydra_pmi_proxy --control-port 10.89.20.4:36523 --rmk user --launcher"
    " ssh --demux poll --pgid 0 --retries 10 --proxy-id 0 ",
    "Intel MPI 2021.18.1": "/opt/intel-mpi/bin//hydra_pmi_proxy --usize -1 --auto-cleanup 1",
    "a daemon that nobody has waited for": "[hydra_pmi_proxy]",
    "a rank in C": "/home/mpiuser/pi ",
    "a rank in Python": "/opt/user/bin/python /opt/user/pi.py",
    "a process that a rank left behind": "/opt/user/bin/python -c import signal; signal.pause()"
    " left-behind",
}
_OF_THE_WORKER = {
    "the agent": "/opt/mpi-agent/bin/python /opt/mpi-agent/bin/mpi-agent worker -- -De"
    " -f /home/mpiuser/.sshd_config ",
    "its notary": "/opt/mpi-agent/bin/python -m mpi_agent.worker.notary_child ",
    "a launcher's watch": "/opt/mpi-agent/bin/python -I -S /opt/mpi-agent/lib/python3.13/"
    "site-packages/mpi_agent/worker_call.py /tmp/mpi-agent-1000/worker.sock watch ",
    "sshd": "sshd.real: /usr/sbin/sshd.real -D -e -f /tmp/mpi-agent-1000/sshd_config [listener]"
    " 0 of 1024-1024 startups",
    "a login": "sshd-session: mpiuser@notty ",
}


@pytest.mark.parametrize("command", _OF_A_PROGRAM.values(), ids=_OF_A_PROGRAM.keys())
def test_a_daemon_or_a_rank_counts_as_left(command: str) -> None:
    """Also where files of the agent's are among its arguments."""
    assert is_of_a_program(command)


@pytest.mark.parametrize("command", _OF_THE_WORKER.values(), ids=_OF_THE_WORKER.keys())
def test_the_agent_and_its_server_do_not_count(command: str) -> None:
    """They are what a worker runs without any program."""
    assert not is_of_a_program(command)
