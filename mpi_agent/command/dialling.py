"""Says how hosts are dialled: by our ssh_config, and who calls whom back."""

from __future__ import annotations

from mpi_agent.command.choices import Choices
from mpi_agent.command.defaults import CONCURRENCY_KNOBS, NO_TREE_KNOBS, TREE_THRESHOLD
from mpi_agent.command.dialects import Dialect, dialect_of
from mpi_agent.command.plan import LaunchRequest, SshAccess
from mpi_agent.command.ssh_arguments import read_ssh_arguments
from mpi_agent.command.topics import Family, Topic
from mpi_agent.command.variables import users_own
from mpi_agent.errors import SettingsError, StackUnsupportedError
from mpi_agent.job.hosts import HostList
from mpi_agent.job.stacks import MpiStack

__all__ = [
    "agent_for",
    "choose_ssh",
    "dials_by_own_ssh",
    "dials_by_tree",
    "reason_for_agent",
    "refuse_what_hangs",
    "ssh_command_of",
]

_FALSE = frozenset({"", "0", "false", "no", "off"})
_MAY_HIDE_MARKS = frozenset(
    {"localcommand", "permitlocalcommand", "include", "controlmaster", "controlpath"}
)
_SHARES_A_CONNECTION = ("-S", "-M")
"""ssh's options for ControlPath and ControlMaster, which stay arguments."""


def choose_ssh(choices: Choices, request: LaunchRequest, ssh: SshAccess, hosts: HostList) -> None:
    """Have ssh dial by our configuration; what the user gave it moves there too."""
    _choose_arguments(choices, ssh)
    dialect = choices.dialect
    if dialect.passes_everything:
        reason = "no resource manager's variable may choose another way"
        choices.say(Topic.LAUNCHER, "ssh", reason)
    agent = agent_for(dialect, ssh)
    if agent is not None:
        choices.say(Topic.SSH_AGENT, agent, reason_for_agent(ssh))
    _note_shared_streams(choices)
    if dialect.passes_everything and not request.loopback_only:
        _choose_way_back(choices, request, ssh, hosts)


def agent_for(dialect: Dialect, ssh: SshAccess) -> str | None:
    """Return what a launcher calls in place of ssh, None for OpenSSH's own: Hydra takes a file.

    One that shares its streams with ssh calls even OpenSSH's own by a command of ours.
    """
    if dialect.family is Family.HYDRA:
        return ssh.agent_program or ssh.agent
    return ssh.agent or (ssh.apart if dialect.shares_its_streams else None)


def ssh_command_of(stack: MpiStack | None, ssh: SshAccess) -> str:
    """Return the command by which the daemons of an MPI dial; it is split at blanks."""
    try:
        agent = agent_for(dialect_of(stack), ssh) if stack is not None else ssh.agent
    except StackUnsupportedError:
        agent = ssh.agent
    return agent or "ssh"


def reason_for_agent(ssh: SshAccess) -> str:
    """Return why a launcher is told what to call in place of ssh."""
    if ssh.agent is not None:
        return "the ssh that works for this account and image"
    return "ssh has streams of its own; else it makes mpirun's non-blocking, and output is lost"


def _note_shared_streams(choices: Choices) -> None:
    """Say what an OpenSSH client costs that the user named himself, as many a manifest does."""
    own = choices.said.by(Topic.SSH_AGENT)
    program = own.words[-1].rpartition("=")[2].split(maxsplit=1)[:1] if own is not None else []
    is_ssh = [name.rpartition("/")[2] for name in program] == ["ssh"]
    if choices.dialect.shares_its_streams and is_ssh:
        choices.notes.append(
            "your own ssh agent is kept; by a plain ssh mpirun's stdout becomes non-blocking, and "
            "output may be lost where it is a pipe: leave it out"
        )


def _choose_arguments(choices: Choices, ssh: SshAccess) -> None:
    knob = choices.dialect.ssh_arguments
    found, own = choices.translation, users_own(knob, choices.said.environ)
    if own is not None:
        read = read_ssh_arguments(choices.said.environ[own])
        found.ssh_options += read.options
        found.ssh_rest += read.rest
        choices.notes.append(f"{own} was read into the job's ssh_config")
    words = " ".join(("-F", ssh.config_path, *found.ssh_rest))
    choices.set(knob, words, "key, port, user and host keys of this job")


def _choose_way_back(
    choices: Choices, request: LaunchRequest, ssh: SshAccess, hosts: HostList
) -> None:
    """Have Hydra's daemons call an address: workers may not resolve the launcher's name."""
    here, said, dialect = request.surroundings, choices.said, choices.dialect
    reason = "workers may not be able to resolve the launcher's name"
    if said.by(Topic.INTERFACE) or said.by(Topic.LAUNCHER_ADDRESS):
        pass
    elif here.launcher_address and dialect.spelling(Topic.LAUNCHER_ADDRESS):
        choices.say(Topic.LAUNCHER_ADDRESS, here.launcher_address, reason)
    elif here.launcher_interface:
        choices.say(Topic.INTERFACE, here.launcher_interface, reason)
    if here.launcher_address and ":" in here.launcher_address:
        choices.say(Topic.IPV6, "", "the hosts' addresses are of IPv6")
    count = len(hosts.remote)
    if count > 1 and not ssh.hosts_can_dial:
        choices.say(Topic.TREE_WIDTH, str(count), "the launcher dials every host itself")


def dials_by_own_ssh(choices: Choices) -> bool:
    """Return whether every login leaves our mark: by ssh, ours, and with our LocalCommand."""
    said = choices.said_in_the_end
    launcher, own_ssh = said.by(Topic.LAUNCHER), said.by(Topic.SSH_AGENT)
    name = launcher.words[-1].rpartition("=")[2] if launcher is not None else "ssh"
    keywords = {keyword.lower() for keyword, _ in choices.translation.ssh_options}
    is_ssh = name == "ssh" or (name == "rsh" and choices.dialect.family is Family.OPEN_MPI)
    shares = any(word.startswith(_SHARES_A_CONNECTION) for word in choices.translation.ssh_rest)
    return is_ssh and own_ssh is None and not shares and not keywords & _MAY_HIDE_MARKS


def dials_by_tree(choices: Choices, hosts: HostList) -> bool:
    """Return whether daemons may start further daemons, so the launcher need not dial all hosts."""
    said, dialect = choices.said_in_the_end, choices.dialect
    for knob in NO_TREE_KNOBS.get(dialect.name, ()):
        own = said.value_of(knob)
        is_off = own.lower() not in _FALSE if own is not None else knob.name in choices.words
        return not is_off
    width = said.by(Topic.TREE_WIDTH)
    if dialect.spelling(Topic.TREE_WIDTH) is None:
        return False
    if width is None:
        return choices.dialect.spellings[Topic.TREE_WIDTH].words[0] not in choices.words
    count = width.words[-1].rpartition("=")[2]
    return not count.isdigit() or 0 < int(count) < len(hosts.remote)


def refuse_what_hangs(choices: Choices, hosts: HostList) -> None:
    """Refuse fewer ssh at a time than hosts that the launcher dials: mpirun then waits for ever.

    Raises:
        SettingsError: the user set such a number.
    Source: Open MPI 4.1.4 and 5.0.11 with 2 for 3 hosts, 2026-11.
    """
    children = len(hosts.remote)
    if dials_by_tree(choices, hosts):
        children = min(children, TREE_THRESHOLD)
    for knob in CONCURRENCY_KNOBS.get(choices.dialect.name, ()):
        own = choices.said.value_of(knob) or ""
        if own.isdigit() and 0 < int(own) < children:
            raise SettingsError(
                f"cannot dial {children} hosts with {knob.name} {own}: mpirun would hang, because "
                "every ssh stays open",
                hint=f"leave it out, or give at least {children}",
            )
