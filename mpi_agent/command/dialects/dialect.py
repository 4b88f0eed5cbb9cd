"""What a dialect is: the spelling of one launcher family, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from mpi_agent.command.defaults import Parameter

__all__ = ["Dialect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The spelling of one generation of a launcher.

    Attributes:
        parameters: MCA parameters set where the user set nothing.
        parameter_option: option that sets a parameter of the launcher itself.
        parameter_variable_prefix: variable that sets one, in front of its name.
        binding_policy: parameter that binds ranks.
        mapping_policy: parameter that maps ranks to hosts.
        ssh_arguments: parameter with the arguments for the ssh agent.
        ssh_agent: parameter with the ssh agent.
        default_hostfile: parameter with the hostfile, for programs that call mpirun themselves.
        ssh_arguments_aliases: other names under which users set the ssh arguments.
        refuses_single_dash: long options must be written with two dashes.
        takes_ipv6_addresses: a host may be given by its IPv6 address; a name is always taken.
        daemon: what mpirun starts on each host.
        finds_its_daemon: sends the daemon's full path by itself, so needs no --prefix.
        daemon_parameters: options and parameters by which a user has another daemon started.
    """

    name: str
    parameters: tuple[Parameter, ...]
    parameter_option: str
    parameter_variable_prefix: str
    binding_policy: str
    mapping_policy: str
    ssh_arguments: str
    ssh_agent: str
    default_hostfile: str
    ssh_arguments_aliases: tuple[str, ...]
    refuses_single_dash: bool
    takes_ipv6_addresses: bool
    daemon: str
    finds_its_daemon: bool
    daemon_parameters: tuple[str, ...]
