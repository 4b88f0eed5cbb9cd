"""What counts as said by the user, in whichever form he said it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pytest

from mpi_agent.command.arguments import read_mpirun_line
from mpi_agent.command.dialects import Dialect
from mpi_agent.command.dialects.dialect import mca, prte
from mpi_agent.command.dialects.intel import INTEL_MPI
from mpi_agent.command.dialects.mpich import MPICH
from mpi_agent.command.dialects.openmpi4 import OPEN_MPI_4
from mpi_agent.command.dialects.openmpi5 import OPEN_MPI_5
from mpi_agent.command.plan import COMMAND_LINE
from mpi_agent.command.said import Said
from mpi_agent.command.topics import Topic

NO_TREE = prte("plm_ssh_no_tree_spawn", "plm_rsh_no_tree_spawn")


def said(
    line: str = "", dialect: Dialect = OPEN_MPI_5, environ: Mapping[str, str] | None = None
) -> Said:
    """Return what a line and variables say; without a line, of a bare program."""
    words = tuple(shlex.split(line))
    read = read_mpirun_line(words, dialect.family) if words else None
    return Said(read, environ or {}, dialect)


@pytest.mark.parametrize(
    "line",
    ["mpirun --map-by node ./a", "mpirun -mapby node ./a", "mpirun --bynode ./a"],
)
def test_an_option_says_its_topic_in_every_spelling(line: str) -> None:
    """Aliases and options with their value in the name included."""
    found = said(line).by(Topic.MAP_BY)

    assert found is not None
    assert found.said_by == COMMAND_LINE
    assert found.words[-1] == "node"


def test_a_topic_may_be_said_by_a_parameter_or_a_variable() -> None:
    """Each dialect has the name for it."""
    line = said("mpirun --mca hwloc_base_binding_policy core ./a", OPEN_MPI_4)
    own = said("mpirun ./a", OPEN_MPI_5, environ={"PRTE_MCA_hwloc_default_binding_policy": "core"})

    by_line, by_variable = line.by(Topic.BIND_TO), own.by(Topic.BIND_TO)

    assert by_line is not None
    assert by_line.said_by == COMMAND_LINE
    assert by_variable is not None
    assert by_variable.said_by == "PRTE_MCA_hwloc_default_binding_policy"


@pytest.mark.parametrize(
    "line",
    [
        "mpirun --prtemca plm_ssh_no_tree_spawn 0 ./a",
        "mpirun -prtemca plm_ssh_no_tree_spawn 0 ./a",
        "mpirun --mca plm_rsh_no_tree_spawn 0 ./a",
        "mpirun -mca plm_rsh_no_tree_spawn 0 ./a",
        "mpirun -gmca plm_ssh_no_tree_spawn 0 ./a",
    ],
)
def test_a_knob_is_turned_under_each_of_its_names(line: str) -> None:
    """The name of an earlier version counts, for it is said in new words."""
    found = said(line).by_knob(NO_TREE)

    assert found is not None
    assert found.said_by == COMMAND_LINE


@pytest.mark.parametrize(
    "variable", ["PRTE_MCA_plm_ssh_no_tree_spawn", "OMPI_MCA_plm_rsh_no_tree_spawn"]
)
def test_a_knob_is_turned_by_a_variable_too(variable: str) -> None:
    """That of an earlier version as well."""
    found = said("mpirun ./a", environ={variable: "0"}).by_knob(NO_TREE)

    assert found is not None
    assert found.said_by == variable


def test_a_variable_set_to_nothing_says_nothing() -> None:
    """Manifests leave such behind."""
    assert (
        said("mpirun ./a", environ={"PRTE_MCA_plm_ssh_no_tree_spawn": ""}).by_knob(NO_TREE) is None
    )


def test_what_an_operator_sets_on_every_launcher_is_not_the_users_word() -> None:
    """Unless its value is another than the operator's."""
    knob = mca("plm_rsh_args")
    operators = said(
        dialect=OPEN_MPI_4, environ={"OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10"}
    )
    users = said(dialect=OPEN_MPI_4, environ={"OMPI_MCA_plm_rsh_args": "-p 222"})

    assert operators.by_knob(knob) is None
    assert users.by_knob(knob) is not None


def test_a_parameter_behind_the_program_is_the_programs() -> None:
    """Options end where it begins."""
    assert said("mpirun ./a --prtemca plm_ssh_no_tree_spawn 0").by_knob(NO_TREE) is None


@pytest.mark.parametrize(
    ("line", "environ"),
    [
        ("mpirun --mca btl_tcp_if_exclude lo ./a", {}),
        ("mpirun ./a", {"OMPI_MCA_btl_tcp_if_exclude": "lo"}),
        ("mpirun ./a", {"PRTE_MCA_btl_tcp_if_exclude": "lo"}),
        ("mpirun ./a", {"btl_tcp_if_exclude": "lo"}),
    ],
)
def test_another_parameter_may_decide_the_same(line: str, environ: dict[str, str]) -> None:
    """As an excluded interface decides which are left."""
    assert said(line, environ=environ).decides(("btl_tcp_if_exclude",)) is not None
    assert said("mpirun ./a").decides(("btl_tcp_if_exclude",)) is None


def test_a_bare_program_has_no_line_to_say_something_on() -> None:
    """Its variables still count."""
    nothing = said()

    assert nothing.by(Topic.NP) is None
    assert not nothing.on_line("np")
    assert said(environ={"PRTE_MCA_plm_ssh_no_tree_spawn": "0"}).by_knob(NO_TREE) is not None


@pytest.mark.parametrize(
    ("dialect", "variable"),
    [(MPICH, "HYDRA_LAUNCHER_EXEC"), (INTEL_MPI, "I_MPI_HYDRA_BOOTSTRAP_EXEC")],
    ids=lambda value: getattr(value, "name", value) if isinstance(value, str) else "",
)
def test_hydras_ssh_may_be_chosen_by_a_variable(dialect: Dialect, variable: str) -> None:
    """Though it has an option for it."""
    found = said("mpiexec ./a", dialect, {variable: "/my/ssh"}).by(Topic.SSH_AGENT)

    assert found is not None
    assert found.said_by == variable


@pytest.mark.parametrize(
    ("dialect", "topic", "variable"),
    [
        (MPICH, Topic.LAUNCHER, "HYDRA_LAUNCHER"),
        (MPICH, Topic.LAUNCHER, "HYDRA_BOOTSTRAP"),
        (MPICH, Topic.BIND_TO, "HYDRA_BINDING"),
        (MPICH, Topic.INTERFACE, "HYDRA_IFACE"),
        (INTEL_MPI, Topic.LAUNCHER, "I_MPI_HYDRA_BOOTSTRAP"),
        (INTEL_MPI, Topic.INTERFACE, "I_MPI_HYDRA_IFACE"),
        (INTEL_MPI, Topic.TREE_WIDTH, "I_MPI_HYDRA_BRANCH_COUNT"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_variable_of_hydra_says_what_an_option_would(
    dialect: Dialect, topic: Topic, variable: str
) -> None:
    """The option is ours to add, and would win."""
    found = said("mpiexec ./a", dialect, {variable: "7"}).by(topic)

    assert found is not None
    assert found.said_by == variable


def test_the_value_of_a_knob_is_told_from_the_line_or_a_variable() -> None:
    """The line wins, as it does for mpirun."""
    line = "mpirun --prtemca plm_ssh_no_tree_spawn 0 ./a"
    environ = {"PRTE_MCA_plm_ssh_no_tree_spawn": "1"}

    assert said(line, environ=environ).value_of(NO_TREE) == "0"
    assert said("mpirun ./a", environ=environ).value_of(NO_TREE) == "1"
    assert said("mpirun ./a").value_of(NO_TREE) is None


@pytest.mark.parametrize(
    ("line", "dialect", "chooses"),
    [
        ("mpirun --cpu-set 0,1 ./a", OPEN_MPI_4, True),
        ("mpirun --cpu-list 0,1 ./a", OPEN_MPI_5, True),
        ("mpirun --cpus-per-proc 2 ./a", OPEN_MPI_4, False),
        ("mpirun --cpus-per-proc 2 ./a", OPEN_MPI_5, True),
        ("mpirun --cpus-per-rank 2 ./a", OPEN_MPI_5, True),
        ("mpirun --bind-to core ./a", OPEN_MPI_5, False),
        ("mpirun ./a --cpu-set 0,1", OPEN_MPI_5, False),
    ],
)
def test_options_that_bear_no_mapping_of_ours(line: str, dialect: Dialect, chooses: bool) -> None:
    """4.1.4 and 5.0.11 end at both, or leave ranks unbound in silence."""
    assert said(line, dialect).chooses_cpus is chooses
