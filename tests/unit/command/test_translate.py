"""The user's words, as the installed launcher takes them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pytest

from mpi_agent.command.arguments import read_mpirun_line
from mpi_agent.command.build import build_plan
from mpi_agent.command.dialects import Dialect
from mpi_agent.command.dialects.intel import INTEL_MPI
from mpi_agent.command.dialects.mpich import MPICH
from mpi_agent.command.dialects.openmpi4 import OPEN_MPI_4
from mpi_agent.command.dialects.openmpi5 import OPEN_MPI_5
from mpi_agent.command.equivalents import words_for
from mpi_agent.command.translate import Translation, translate
from mpi_agent.errors import SettingsError
from mpi_agent.job.stacks import MpiStack
from tests.builders import (
    INTEL_STACK,
    MPICH_STACK,
    OPEN_MPI_4_STACK,
    OPEN_MPI_5_STACK,
    a_host_list,
    a_launch_request,
)

OPEN_MPIS = (OPEN_MPI_4, OPEN_MPI_5)
HYDRAS = (MPICH, INTEL_MPI)
every_open_mpi = pytest.mark.parametrize("dialect", OPEN_MPIS, ids=["4", "5"])
every_hydra = pytest.mark.parametrize("dialect", HYDRAS, ids=["mpich", "intel"])


def translated(
    options: str, dialect: Dialect, environ: Mapping[str, str] | None = None
) -> Translation:
    """Return what becomes of options in front of `./pi`."""
    program = ("mpirun", *shlex.split(options), "./pi")
    line = read_mpirun_line(program, dialect.family)
    return translate(line, dialect, hostfile_path="/hf", environ=environ or {})


def words(options: str, dialect: Dialect, environ: Mapping[str, str] | None = None) -> str:
    """Return the options in front of `./pi` after translation."""
    return shlex.join(translated(options, dialect, environ).tokens).removesuffix("./pi").strip()


def argv_of(
    line: str, stack: MpiStack, *, environ: Mapping[str, str] | None = None, slots: int = 2
) -> str:
    """Return the whole command for a line on two hosts."""
    request = a_launch_request(*shlex.split(line), environ=environ)
    return shlex.join(build_plan(request, a_host_list(slots=slots), stack).argv)


@every_open_mpi
@pytest.mark.parametrize(
    ("hydras", "own"),
    [
        ("-ppn 2", "--map-by ppr:2:node"),
        ("-perhost 2", "--map-by ppr:2:node"),
        ("-rr", "--map-by node"),
        ("-l", "--tag-output"),
        ("-prepend-rank", "--tag-output"),
        ("-print-rank-map", "--display-map"),
        ("-iface eth0", "--mca btl_tcp_if_include eth0"),
        ("-binding core", "--bind-to core"),
        ("-gwdir /work", "--wdir /work"),
        ("-gpath /bin", "--path /bin"),
        ("-genv A=1", "-x A=1"),
        ("-genv A 1", "-x A=1"),
        ("-env A 'b c'", "-x 'A=b c'"),
        ("-launcher-exec /my/ssh", {"4": "--mca plm_rsh_agent", "5": "--prtemca plm_ssh_agent"}),
    ],
)
def test_hydras_options_are_said_in_open_mpis_words(
    hydras: str, own: str | dict[str, str], dialect: Dialect
) -> None:
    """A manifest written for one family runs with the other, and the change is said."""
    found = translated(hydras, dialect)
    expected = own if isinstance(own, str) else f"{own[dialect.name.value[-1]]} /my/ssh"

    assert found.tokens == (*shlex.split(expected), "./pi")
    assert len(found.notes) == 1
    assert dialect.name.value in found.notes[0]


@every_hydra
@pytest.mark.parametrize(
    ("open_mpis", "own"),
    [
        ("-N 2", "-ppn 2"),
        ("--npernode 2", "-ppn 2"),
        ("--pernode", "-ppn 1"),
        ("--bynode", "-ppn 1"),
        ("--byslot", ""),
        ("-c 4", "-n 4"),
        ("--map-by ppr:2:node", "-ppn 2"),
        ("--map-by ppr:2:node:PE=1", "-ppn 2"),
        ("--map-by node", "-ppn 1"),
        ("-map-by slot", ""),
        ("--wd /work", "-wdir /work"),
        ("--tag-output", "-prepend-rank"),
        ("--allow-run-as-root", ""),
        ("--oversubscribe", ""),
        ("--prefix /opt/ompi", ""),
        ("--report-bindings", ""),
        ("-q", ""),
    ],
)
def test_open_mpis_options_are_said_in_hydras_words(
    open_mpis: str, own: str, dialect: Dialect
) -> None:
    """Or left out where Hydra does so anyway; either is said."""
    found = translated(open_mpis, dialect)

    assert found.tokens == (*own.split(), "./pi")
    assert len(found.notes) == 1


@every_hydra
@pytest.mark.parametrize("mapping", ["core", "socket", "hwthread"])
def test_a_mapping_that_hydra_knows_stays(mapping: str, dialect: Dialect) -> None:
    """It goes with a binding there."""
    assert words(f"-bind-to core -map-by {mapping}", dialect) == f"-bind-to core -map-by {mapping}"


@every_hydra
def test_a_mapping_without_an_equivalent_is_refused(dialect: Dialect) -> None:
    """MPICH passes over it in silence and fills the first host."""
    with pytest.raises(SettingsError, match=r"ppr:2:socket.*an option of Open MPI"):
        translated("--map-by ppr:2:socket", dialect)


@every_open_mpi
@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("-bind-to core:2", "PE=2"),
        ("-binding core:2", "PE=2"),
        ("-gtool x", "the tool in front of the program"),
        ("-genvall", "--env-prefix"),
        ("-errfile-pattern f", "--output-filename"),
        ("-check-mpi", "leave it out"),
    ],
)
def test_what_open_mpi_cannot_say_is_refused_with_what_to_write(
    option: str, hint: str, dialect: Dialect
) -> None:
    """Both end at it, 4 with code 1 and 5 with 213, and a page of help."""
    with pytest.raises(SettingsError, match="it is an option of Hydra") as caught:
        translated(option, dialect)

    assert dialect.name.value in caught.value.summary
    assert hint in str(caught.value.hint)


@every_hydra
@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("--mca btl_tcp_if_include eth0", "-iface INTERFACE"),
        ("--mca pml ob1", "leave it out"),
        ("--rank-by core", "-ppn N"),
        ("--output-filename f", "-outfile-pattern"),
    ],
)
def test_what_hydra_cannot_say_is_refused_with_what_to_write(
    option: str, hint: str, dialect: Dialect
) -> None:
    """By the option's name, or by that of the parameter."""
    with pytest.raises(SettingsError, match="it is an option of Open MPI") as caught:
        translated(option, dialect)

    assert hint in str(caught.value.hint)


@every_open_mpi
@pytest.mark.parametrize(
    "option",
    [
        "-launcher ssh",
        "-bootstrap ssh",
        "-launcher slurm",
        "-rmk user",
        "-localhost h",
        "-genvnone",
    ],
)
def test_what_need_not_be_said_is_left_out_with_the_reason(option: str, dialect: Dialect) -> None:
    """Open MPI 4 ends at `--mca plm ssh`: its component is called rsh."""
    found = translated(option, dialect)

    assert found.tokens == ("./pi",)
    assert found.notes[0].startswith(f"{option} is left out: ")


@pytest.mark.parametrize(
    ("written", "taken"),
    [
        ("-bind-to none", "--bind-to none"),
        ("-map-by slot", "--map-by slot"),
        ("-rank-by slot", "--rank-by slot"),
        ("--bind-to=none", "--bind-to none"),
        ("--map-by=node", "--map-by node"),
        ("--H a", "-H a"),
        ("--c=2", "-c 2"),
        ("-set-env A=1", "--set-env A=1"),
        ("-rf ranks", "--rankfile ranks"),
        ("-q", ""),
        ("--quiet", ""),
        ("--bind-to-socket", "--bind-to package"),
        ("--display-diffable-map", "--display map"),
        ("--do-not-resolve", "--prtemca prte_do_not_resolve 1"),
    ],
)
def test_a_spelling_that_open_mpi_5_refuses_is_corrected_and_said(written: str, taken: str) -> None:
    """5.0.11 ends with 213 at each of them."""
    found = translated(written, OPEN_MPI_5)

    assert found.tokens == (*taken.split(), "./pi")
    assert len(found.notes) == 1


@pytest.mark.parametrize(
    ("written", "taken"),
    [
        ("--bind-to=none", "--bind-to none"),
        ("--map-by=slot:PE=2", "--map-by slot:PE=2"),
        ("-np=4", "-np 4"),
        ("--mca=pml ob1", "--mca pml ob1"),
        ("--output tag", "--tag-output"),
        ("--output tag,timestamp", "--tag-output --timestamp-output"),
        ("--display map,bind", "--display-map --report-bindings"),
        ("--rank-by fill", ""),
    ],
)
def test_a_spelling_that_open_mpi_4_refuses_is_corrected_and_said(written: str, taken: str) -> None:
    """4.1.4 ends with `unknown option`."""
    found = translated(written, OPEN_MPI_4)

    assert found.tokens == (*taken.split(), "./pi")
    assert len(found.notes) == 1


@pytest.mark.parametrize(
    "options", ["-bind-to none", "-map-by slot:PE=2", "-q", "--bind-to-socket"]
)
def test_what_open_mpi_4_takes_stays_as_it_is(options: str) -> None:
    """One dash is as good as two there."""
    found = translated(options, OPEN_MPI_4)

    assert found.tokens == (*options.split(), "./pi")
    assert found.notes == []


@pytest.mark.parametrize("options", ["--host=a", "--wdir=/work", "-hostname", "--n 2", "-mca a b"])
def test_what_open_mpi_5_takes_stays_as_it_is(options: str) -> None:
    """It is only particular about some."""
    found = translated(options, OPEN_MPI_5)

    assert found.tokens == (*options.split(), "./pi")
    assert found.notes == []


@pytest.mark.parametrize("order", ["core", "hwthread", "socket", "numa", "board", "l3cache"])
def test_an_order_of_ranks_that_open_mpi_5_does_not_know_is_its_slot(order: str) -> None:
    """4.1.4 numbers each host's ranks in a row then; 5.0.11 would go round with --map-by node."""
    assert words(f"--rank-by {order}", OPEN_MPI_5) == "--rank-by slot"
    assert words(f"--rank-by {order}", OPEN_MPI_4) == f"--rank-by {order}"


@pytest.mark.parametrize(
    ("option", "dialect"),
    [
        ("--tv", OPEN_MPI_5),
        ("--output directory=x", OPEN_MPI_4),
        ("--runtime-options x", OPEN_MPI_4),
        ("-gpath /bin", MPICH),
    ],
)
def test_an_own_option_that_this_version_lacks_is_refused(option: str, dialect: Dialect) -> None:
    """Nothing stands in its place."""
    with pytest.raises(SettingsError, match="it has no such option"):
        translated(option, dialect)


@pytest.mark.parametrize(
    ("options", "dialect", "taken"),
    [
        ("--hostfile a", OPEN_MPI_4, "--hostfile /hf"),
        ("-machinefile a", OPEN_MPI_5, "--hostfile /hf"),
        ("--hostfile=a", OPEN_MPI_5, "--hostfile /hf"),
        ("-default-hostfile a", OPEN_MPI_5, "--hostfile /hf"),
        ("-f a", OPEN_MPI_5, "--hostfile /hf"),
        ("--hostfile a", MPICH, "-f /hf"),
        ("-machinefile a", MPICH, "-f /hf"),
        ("-f a", INTEL_MPI, "-machinefile /hf"),
        ("--hostfile a --machinefile a", OPEN_MPI_5, "--hostfile /hf"),
    ],
)
def test_the_users_hostfile_becomes_ours(options: str, dialect: Dialect, taken: str) -> None:
    """It was read as the source of hosts; a second one would end mpirun."""
    found = translated(options, dialect)

    assert found.tokens == (*taken.split(), "./pi")
    assert found.notes == ["hostfile a was read and rendered anew"]


@every_open_mpi
def test_hydras_list_of_hosts_becomes_open_mpis_hostfile(dialect: Dialect) -> None:
    """There a name without a count would be one slot, whatever -ppn says."""
    found = translated("-hosts a,b", dialect)

    assert found.tokens == ("./pi",)
    assert found.notes == ["-hosts a,b became the hostfile"]


@every_hydra
@pytest.mark.parametrize("options", ["-hosts a,b", "-host a,b", "-H a,b", "--host a,b"])
def test_a_list_of_hosts_becomes_hydras_hostfile(options: str, dialect: Dialect) -> None:
    """Its own list has no counts."""
    found = translated(options, dialect)

    assert found.tokens == ("./pi",)
    assert found.notes == [f"{options} became the hostfile"]


@every_open_mpi
def test_a_variable_that_is_not_set_is_left_out_and_said(dialect: Dialect) -> None:
    """Mpirun would only warn, in the middle of the job's output."""
    found = translated("-x PYTHONPATH -x HF_HOME", dialect, {"HF_HOME": "/hf"})

    assert found.tokens == ("-x", "HF_HOME", "./pi")
    assert found.notes == ["-x PYTHONPATH is left out: the variable is not set here"]


@pytest.mark.parametrize("stack", [OPEN_MPI_4_STACK, OPEN_MPI_5_STACK], ids=["4", "5"])
def test_a_variable_that_only_the_agent_sets_is_no_unset_one(stack: MpiStack) -> None:
    """`-x MASTER_ADDR` of a manifest gets the agent's value, and stands once."""
    request = a_launch_request("mpirun", "-x", "MASTER_ADDR", "./pi")

    plan = build_plan(request, a_host_list(), stack)

    assert plan.argv.count("MASTER_ADDR") == 1
    assert plan.argv[-3:] == ("-x", "MASTER_ADDR", "./pi")
    assert not [note for note in plan.notes if "MASTER_ADDR" in note]


@pytest.mark.parametrize("dialect", [*OPEN_MPIS, *HYDRAS], ids=lambda d: d.name.name)
def test_a_wildcard_names_what_is_set_here(dialect: Dialect) -> None:
    """Open MPI 4 warns that `LAB_*` is not set, and Hydra looks for that very name."""
    found = translated("-x 'LAB_*'", dialect, {"LAB_B": "1", "LAB_A": "2", "OTHER": "3"})

    assert found.tokens == ("./pi",)
    assert found.names == ["LAB_A", "LAB_B"]
    assert found.notes == ["-x 'LAB_*' stands for LAB_A, LAB_B"]


@every_open_mpi
def test_a_wildcard_counts_for_its_own_program(dialect: Dialect) -> None:
    """As each `-x` of Open MPI 4 does."""
    line = read_mpirun_line(tuple(shlex.split("mpirun ./a : -x 'LAB_*' ./b")), dialect.family)

    found = translate(line, dialect, hostfile_path="/hf", environ={"LAB_A": "", "LAB_B": ""})

    assert shlex.join(found.tokens) == "./a : -x LAB_A -x LAB_B ./b"


@every_open_mpi
def test_a_wildcard_that_fits_nothing_is_left_out_and_said(dialect: Dialect) -> None:
    """As a name that is not set is."""
    found = translated("-x 'NCCL_*'", dialect)

    assert found.tokens == ("./pi",)
    assert found.notes == ["-x 'NCCL_*' is left out: it fits no variable that may travel"]


@pytest.mark.parametrize(
    ("pattern", "names", "left_out"),
    [
        ("PM*", ["PMX"], "PMI_RANK"),
        ("HO*", ["HOME", "HOROVOD_X"], None),
        ("*", ["HOROVOD_X", "PMX"], "HOME, PMI_RANK"),
    ],
)
def test_a_wildcard_takes_along_nothing_that_would_be_replaced(
    pattern: str, names: list[str], left_out: str | None
) -> None:
    """A lone one also leaves what usually stays, which who writes `HO*` may mean."""
    environ = {"PMX": "1", "PMI_RANK": "1", "HOME": "/root", "HOROVOD_X": "1"}

    found = translated(f"-x '{pattern}'", OPEN_MPI_4, environ)

    said = f"; left out: {left_out}, as each host has its own" if left_out else ""
    assert found.names == names
    assert found.notes == [f"-x '{pattern}' stands for {', '.join(names)}{said}"]


@pytest.mark.parametrize("dialect", [*OPEN_MPIS, *HYDRAS], ids=lambda d: d.name.name)
@pytest.mark.parametrize("option", ["-x HF_TOKEN=s3cret", "-genv HF_TOKEN s3cret"])
def test_a_secret_moves_out_of_the_line(option: str, dialect: Dialect) -> None:
    """It is passed by name; neither the note nor the line has its value."""
    found = translated(option, dialect)

    assert found.tokens == ("./pi",)
    assert found.values == [("HF_TOKEN", "s3cret")]
    assert found.names == ["HF_TOKEN"]
    assert found.notes == ["the value of HF_TOKEN moved out of the command line"]


@every_hydra
def test_open_mpis_variables_are_passed_by_hydras_list(dialect: Dialect) -> None:
    """A value that the user wrote stays on his line."""
    found = translated("-x A=1 -x B", dialect, {"B": "2"})

    assert found.tokens == ("-genv", "A", "1", "./pi")
    assert found.names == ["B"]


@every_hydra
def test_a_global_list_is_merged_into_ours(dialect: Dialect) -> None:
    """Hydra ends at a second one; names that are not set are said."""
    found = translated("-genvlist A,B,C", dialect, {"A": "1", "C": "3"})

    assert found.tokens == ("./pi",)
    assert found.names == ["A", "C"]
    assert found.notes == ["-genvlist: B not set here, left out"]


@every_hydra
def test_a_list_of_one_application_stays_with_it(dialect: Dialect) -> None:
    """It is for that application alone."""
    assert words("-envlist A,B", dialect, {"A": "1"}) == "-envlist A,B"


@every_open_mpi
@pytest.mark.parametrize("option", ["-genvlist A,B", "-envlist A,B"])
def test_hydras_lists_become_names_for_open_mpi(option: str, dialect: Dialect) -> None:
    """Each is passed with -x in front."""
    found = translated(option, dialect, {"A": "1", "B": "2"})

    assert found.tokens == ("./pi",)
    assert found.names == ["A", "B"]


@pytest.mark.parametrize("stack", [MPICH_STACK, INTEL_STACK], ids=["mpich", "intel"])
def test_a_secret_reaches_the_ranks_where_nothing_else_may(stack: MpiStack) -> None:
    """-genvnone and a list exclude each other, so the list alone says both."""
    environ = {"NCCL_DEBUG": "INFO"}
    line = "mpiexec -genvnone -genv HF_TOKEN s3cret ./pi"

    argv = argv_of(line, stack, environ=environ).split()

    assert "-genvnone" not in argv
    assert argv[argv.index("-genvlist") + 1] == "HF_TOKEN"


@pytest.mark.parametrize("option", ["-genvall", "-genvnone"])
def test_no_list_stands_beside_the_users_wish_for_all_or_nothing(option: str) -> None:
    """Hydra ends at both, "duplicate setting"."""
    argv = argv_of(f"mpiexec {option} ./pi", MPICH_STACK).split()

    assert option in argv
    assert "-genvlist" not in argv


@pytest.mark.parametrize(
    ("options", "dialect"),
    [
        ("--mca plm_rsh_args '-p 222 -T'", OPEN_MPI_4),
        ("-gmca plm_rsh_args '-p 222 -T'", OPEN_MPI_4),
        ("--mca plm_rsh_args '-p 222 -T'", OPEN_MPI_5),
        ("--prtemca plm_ssh_args '-p 222 -T'", OPEN_MPI_5),
        ("-bootstrap-exec-args '-p 222 -T'", OPEN_MPI_5),
        ("-bootstrap-exec-args '-p 222 -T'", INTEL_MPI),
    ],
)
def test_ssh_arguments_move_into_our_configuration(options: str, dialect: Dialect) -> None:
    """What no file can say stays for the command line."""
    found = translated(options, dialect)

    assert found.tokens == ("./pi",)
    assert found.ssh_options == [("Port", "222")]
    assert found.ssh_rest == ["-T"]
    assert found.notes == [f"{options} was read into the job's ssh_config"]


def test_the_rest_of_ssh_arguments_stands_behind_ours() -> None:
    """From the line and from the variable."""
    environ = {"OMPI_MCA_plm_rsh_args": "-E /tmp/log"}
    line = "mpirun --mca plm_rsh_args '-p 222 -T' ./pi"

    argv = argv_of(line, OPEN_MPI_4_STACK, environ=environ)

    assert "plm_rsh_args '-F /run/mpi-agent/ssh_config -T -E /tmp/log'" in argv


@pytest.mark.parametrize(
    ("written", "taken"),
    [
        ("--mca plm_rsh_no_tree_spawn 1", "--prtemca plm_ssh_no_tree_spawn 1"),
        ("-mca orte_tmpdir_base /x", "--prtemca prte_tmpdir_base /x"),
        ("--mca oob_tcp_if_include eth0", "--prtemca prte_if_include eth0"),
        ("--mca hwloc_base_binding_policy core", "--bind-to core"),
        ("--mca rmaps_base_mapping_policy node", "--map-by node"),
        ("--mca rmaps_base_oversubscribe 1", "--oversubscribe"),
        ("--mca rmaps_base_oversubscribe 0", ""),
        ("--mca orte_tag_output true", "--tag-output"),
        ("--mca orte_tag_output false", ""),
    ],
)
def test_a_parameter_that_open_mpi_5_ignores_is_said_in_its_words(written: str, taken: str) -> None:
    """It would pass over the old name in silence."""
    found = translated(written, OPEN_MPI_5)

    assert found.tokens == (*taken.split(), "./pi")
    assert len(found.notes) == 1
    assert words(written, OPEN_MPI_4) == written


@pytest.mark.parametrize(
    ("line", "environ"),
    [
        ("mpirun -N 2 ./pi", {"OMPI_MCA_rmaps_base_mapping_policy": "node"}),
        ("mpirun --bynode ./pi", {"OMPI_MCA_rmaps_base_mapping_policy": "slot"}),
        ("mpirun --map-by node ./pi", {"OMPI_MCA_rmaps_base_mapping_policy": "slot"}),
        (
            "mpirun -n 2 --map-by ppr:2:socket:PE=1 ./pi",
            {"OMPI_MCA_hwloc_base_binding_policy": "none"},
        ),
        ("mpirun --bind-to core ./pi", {"OMPI_MCA_hwloc_base_binding_policy": "none"}),
        (
            "mpirun ./pi",
            {"OMPI_MCA_orte_tmpdir_base": "/old", "PRTE_MCA_prte_tmpdir_base": "/new"},
        ),
    ],
)
def test_an_old_variable_is_not_said_beside_what_counts_more(
    line: str, environ: dict[str, str]
) -> None:
    """Open MPI 5 ends at two mappings, and at PE= beside a binding."""
    argv = shlex.split(argv_of(line, OPEN_MPI_5_STACK, environ=environ))

    assert argv.count("--map-by") + argv.count("--bynode") + argv.count("-N") <= 1
    assert argv.count("--bind-to") <= 1
    assert not ("none" in argv and "PE=1" in " ".join(argv))
    assert "/old" not in argv


@every_open_mpi
@pytest.mark.parametrize(
    ("options", "taken"),
    [
        ("--npernode 2 --map-by slot", "--npernode 2"),
        ("--npernode 2 --map-by node", "--npernode 2"),
        ("-N 2 --bynode", "-N 2"),
        ("--map-by ppr:2:node -N 2", "--map-by ppr:2:node"),
        ("--map-by ppr:2:node -ppn 2", "--map-by ppr:2:node"),
        ("-ppn 2 --map-by slot", "--map-by ppr:2:node"),
    ],
)
def test_of_a_mapping_and_a_count_per_host_one_goes(
    options: str, taken: str, dialect: Dialect
) -> None:
    """Open MPI 4 would obey the mapping alone, 5 ends with 213."""
    assert words(options, dialect) == taken


@every_hydra
@pytest.mark.parametrize(
    ("options", "taken"),
    [
        ("-N 2 --map-by ppr:2:node", "-ppn 2"),
        ("-N 2 --map-by node", "-ppn 2"),
        ("-N 2 --map-by slot", "-ppn 2"),
        ("-N 2 --bynode", "-ppn 2"),
        ("-ppn 2 -map-by core", "-ppn 2 -map-by core"),
    ],
)
def test_hydra_is_told_one_count_per_host(options: str, taken: str, dialect: Dialect) -> None:
    """4.0.2 and Intel's end at a second one, "duplicate setting: ppn"."""
    assert words(options, dialect) == taken


def test_a_count_per_host_and_a_mapping_of_another_application_both_stay() -> None:
    """Each is for its own."""
    options = "-n 2 -N 1 ./a : -n 2 --map-by slot"

    assert words(options, OPEN_MPI_4) == options


@pytest.mark.parametrize(
    "mapping", ["--map-by socket:PE=2", "--map-by ppr:1:node:PE=2", "--map-by slot:PE=2"]
)
@pytest.mark.parametrize("stack", [OPEN_MPI_4_STACK, OPEN_MPI_5_STACK], ids=["4", "5"])
def test_cores_for_each_rank_keep_our_binding_away(mapping: str, stack: MpiStack) -> None:
    """PE= binds by itself; Open MPI 5 ends with 213 beside --bind-to none."""
    assert "--bind-to" not in argv_of(f"mpirun {mapping} ./pi", stack)


def test_cores_for_each_rank_in_old_words_bear_a_mapping_in_open_mpi_4_alone() -> None:
    """5.0.11 would leave the ranks unbound in silence where --map-by stands beside them."""
    line = "mpirun --cpus-per-proc 2 ./pi"

    assert "--map-by slot" in argv_of(line, OPEN_MPI_4_STACK)
    assert "--map-by" not in argv_of(line, OPEN_MPI_5_STACK)
    assert "--bind-to" not in argv_of(line, OPEN_MPI_4_STACK) + argv_of(line, OPEN_MPI_5_STACK)


@pytest.mark.parametrize("option", ["--cpu-set 0,1", "--cpu-list 0,1"])
@pytest.mark.parametrize("stack", [OPEN_MPI_4_STACK, OPEN_MPI_5_STACK], ids=["4", "5"])
def test_a_list_of_cpus_bears_no_mapping_of_ours(option: str, stack: MpiStack) -> None:
    """It is a mapping of its own for both, and they end at two."""
    argv = argv_of(f"mpirun {option} ./pi", stack)

    assert "--map-by" not in argv
    assert "--bind-to" not in argv


@pytest.mark.parametrize("option", ["--bynode", "-bynode", "--byslot", "--pernode", "-N 2"])
@pytest.mark.parametrize("stack", [OPEN_MPI_4_STACK, OPEN_MPI_5_STACK], ids=["4", "5"])
def test_a_mapping_that_an_option_implies_keeps_ours_away(option: str, stack: MpiStack) -> None:
    """Its value stands nowhere in the line."""
    argv = argv_of(f"mpirun {option} ./pi", stack)

    assert "--map-by" not in argv
    assert option in argv


def test_variables_are_named_for_every_application_of_open_mpi_4() -> None:
    """Its -x counts for the application it stands in; 5 passes the first one's to all."""
    line, environ = "mpirun -n 2 ./a : -n 1 ./b : -n 1 ./c", {"NCCL_DEBUG": "INFO"}

    of_4 = argv_of(line, OPEN_MPI_4_STACK, environ=environ)
    of_5 = argv_of(line, OPEN_MPI_5_STACK, environ=environ)

    assert [part.count("-x NCCL_DEBUG") for part in of_4.split(" : ")] == [1, 1, 1]
    assert [part.count("-x NCCL_DEBUG") for part in of_5.split(" : ")] == [1, 0, 0]


def test_hydras_variable_for_all_reaches_every_application_of_open_mpi_4() -> None:
    """And -env stays with its own."""
    line = "mpiexec -genv FI_PROVIDER tcp -n 2 -env ROLE a ./a : -n 2 -env ROLE b ./b"

    parts = argv_of(line, OPEN_MPI_4_STACK).split(" : ")

    assert ["-x FI_PROVIDER" in part for part in parts] == [True, True]
    assert [part.count("-x ROLE=a") for part in parts] == [1, 0]
    assert [part.count("-x ROLE=b") for part in parts] == [0, 1]


@pytest.mark.parametrize(
    ("line", "stack", "called_as"),
    [
        ("/opt/amazon/openmpi/bin/mpirun ./pi", OPEN_MPI_4_STACK, "mpirun"),
        ("mpiexec ./pi", OPEN_MPI_5_STACK, "mpiexec"),
        ("mpiexec.hydra ./pi", OPEN_MPI_5_STACK, "mpirun"),
        ("orterun ./pi", MPICH_STACK, "/usr/bin/mpiexec.hydra"),
    ],
)
def test_the_launcher_goes_by_a_name_of_its_own(line: str, stack: MpiStack, called_as: str) -> None:
    """Open MPI 4 called by a path turns its prefix mode on, Hydra needs the path."""
    assert argv_of(line, stack).split()[0] == called_as


def test_another_place_of_open_mpi_on_the_hosts_is_where_the_wait_looks() -> None:
    """Open MPI 5.0.11 calls PREFIX/bin/prted, as 4 does with orted."""
    request = a_launch_request("mpirun", "--prefix", "/opt/ompi", "./pi")

    assert build_plan(request, a_host_list(), OPEN_MPI_5_STACK).daemon == "/opt/ompi/bin/prted"
    assert build_plan(request, a_host_list(), MPICH_STACK).daemon == "/usr/bin/hydra_pmi_proxy"


@pytest.mark.parametrize(
    ("line", "environ", "stack", "tells"),
    [
        ("mpirun ./pi", {}, OPEN_MPI_5_STACK, True),
        ("mpirun --mca plm rsh ./pi", {}, OPEN_MPI_4_STACK, True),
        ("mpirun --mca plm slurm ./pi", {}, OPEN_MPI_4_STACK, False),
        ("mpirun --mca plm_rsh_agent /my/ssh ./pi", {}, OPEN_MPI_4_STACK, False),
        ("mpirun --mca plm_rsh_agent /my/ssh ./pi", {}, OPEN_MPI_5_STACK, False),
        ("mpirun ./pi", {"OMPI_MCA_plm_rsh_agent": "/my/ssh"}, OPEN_MPI_5_STACK, False),
        ("mpirun -launcher slurm ./pi", {}, OPEN_MPI_5_STACK, True),
        ("mpiexec -launcher slurm ./pi", {}, MPICH_STACK, False),
        ("mpiexec -launcher-exec /my/ssh ./pi", {}, MPICH_STACK, False),
        ("mpiexec ./pi", {"HYDRA_LAUNCHER_EXEC": "/my/ssh"}, MPICH_STACK, False),
        ("mpirun --mca plm_rsh_args '-o LocalCommand=x' ./pi", {}, OPEN_MPI_4_STACK, False),
        (
            "mpirun ./pi",
            {"OMPI_MCA_plm_rsh_args": "-oPermitLocalCommand=no"},
            OPEN_MPI_4_STACK,
            False,
        ),
    ],
)
def test_who_was_dialled_can_be_told_where_our_mark_is_left(
    line: str, environ: dict[str, str], stack: MpiStack, *, tells: bool
) -> None:
    """Else a healthy job would be ended as one that dials nobody."""
    request = a_launch_request(*shlex.split(line), environ=environ)

    assert build_plan(request, a_host_list(), stack).dials_by_own_ssh is tells


def test_the_users_ssh_of_hydra_is_not_replaced_by_the_built_in_client() -> None:
    """An option of ours would win over his variable."""
    environ = {"HYDRA_LAUNCHER_EXEC": "/my/ssh"}
    request = a_launch_request("./pi", environ=environ, agent="/built-in")

    argv = build_plan(request, a_host_list(), MPICH_STACK).argv

    assert "-launcher-exec" not in argv


@pytest.mark.parametrize(
    ("value", "said"),
    [("1", ("--tag-output",)), ("TRUE", ("--tag-output",)), ("no", ()), ("Off", ()), ("", ())],
)
def test_words_without_a_place_for_a_value_are_said_when_it_is_true(
    value: str, said: tuple[str, ...]
) -> None:
    """As MCA parameters read truth."""
    assert words_for(("--tag-output",), value) == said
    assert words_for(("--bind-to", "{}"), value) == ("--bind-to", value)


@every_hydra
def test_hydra_is_not_given_the_end_of_the_options(dialect: Dialect) -> None:
    """It ends with 255 at `--`; in front of each program."""
    program = ("mpiexec", *shlex.split("-n 2 -- ./a -- 1 : -n 1 -- ./b"))
    line = read_mpirun_line(program, dialect.family)

    found = translate(line, dialect, hostfile_path="/hf", environ={})

    assert shlex.join(found.tokens) == "-n 2 ./a -- 1 : -n 1 ./b"
    assert found.notes[0] == f"-- is left out, as {dialect.name.value} does not take it"


@every_open_mpi
def test_open_mpi_keeps_the_end_of_the_options(dialect: Dialect) -> None:
    """Both versions take it."""
    assert words("-n 2 --", dialect) == "-n 2 --"


def test_no_error_has_the_value_of_a_variable() -> None:
    """Open MPI 4 has no --append-env."""
    with pytest.raises(SettingsError) as caught:
        translated("--append-env API_TOKEN s3cret", OPEN_MPI_4)

    assert '"--append-env API_TOKEN ..."' in str(caught.value)


def test_an_mpirun_without_a_program_is_shown_without_values() -> None:
    """The whole line stands in that error."""
    with pytest.raises(SettingsError) as caught:
        argv_of("mpirun -x API_TOKEN=s3cret", OPEN_MPI_5_STACK)

    assert "API_TOKEN=..." in str(caught.value)


@pytest.mark.parametrize("stack", [OPEN_MPI_4_STACK, OPEN_MPI_5_STACK], ids=["4", "5"])
def test_no_note_has_a_secret_of_ssh_arguments(stack: MpiStack) -> None:
    """SetEnv takes values."""
    line = "mpirun --mca plm_rsh_args '-p 22 -o SetEnv=API_TOKEN=s3cret' ./pi"

    notes = build_plan(a_launch_request(*shlex.split(line)), a_host_list(), stack).notes

    assert "SetEnv=API_TOKEN=..." in " ".join(notes)
    assert "s3cret" not in " ".join(notes)
