"""The shims of the images, run for real: to whom they hand a line, and that it arrives whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.shim_world import AGENT, MPI, SBIN, SHELLS, ShimWorld, assert_handed_on, assert_refused
from tests.workers import open_directory

pytestmark = pytest.mark.integration

HOSTILE = ("", "a b", " ", "x\ny", "*", "?", "$HOME", "`id`", "'", '"', "\\", "-n", "--", "é\t")
MPIRUN, SSHD = f"{MPI}/mpirun", f"{SBIN}/sshd"
A_JOB = {"MPI_AGENT_HOSTS": "w-0:1"}


@pytest.fixture(params=SHELLS)
def world(request: pytest.FixtureRequest) -> Iterator[ShimWorld]:
    """Give a world for each shell that may be /bin/sh."""
    with open_directory() as root:
        yield ShimWorld(root, request.param)


def test_outside_a_job_the_real_mpirun_gets_the_line(world: ShimWorld) -> None:
    """As in a shell, or in a builder."""
    said = world.call("mpirun", *HOSTILE)

    assert_handed_on(said, "mpirun.real", *HOSTILE)


@pytest.mark.parametrize("variable", ["MPI_AGENT_HOSTS", "MPI_AGENT_HOSTFILE"])
def test_a_variable_that_names_hosts_makes_a_job(world: ShimWorld, variable: str) -> None:
    """The agent gets the path of the shim, beside which the real one stands, and the line."""
    said = world.call("mpirun", *HOSTILE, **{variable: "w-0:1"})

    assert_handed_on(said, "mpi-agent", "launch", "--", MPIRUN, *HOSTILE)
    assert said.program == AGENT


@pytest.mark.parametrize("variable", ["MPI_AGENT_HOSTS", "MPI_AGENT_HOSTFILE"])
def test_an_empty_variable_is_the_agents_to_complain_of(world: ShimWorld, variable: str) -> None:
    """The real one would run everything on the launcher, with code 0."""
    said = world.call("mpirun", "-n", "2", "true", **{variable: ""})

    assert_handed_on(said, "mpi-agent", "launch", "--", MPIRUN, "-n", "2", "true")


def test_what_the_operator_mounts_makes_a_job(world: ShimWorld) -> None:
    """A launcher of the operator's has no variable of ours."""
    world.be_a_launcher()

    said = world.call("mpirun", *HOSTILE)

    assert_handed_on(said, "mpi-agent", "launch", "--", MPIRUN, *HOSTILE)


def test_a_line_without_words_arrives_without_words(world: ShimWorld) -> None:
    """Neither side gets an empty word instead."""
    assert_handed_on(world.call("mpirun"), "mpirun.real")
    assert_handed_on(world.call("mpirun", **A_JOB), "mpi-agent", "launch", "--", MPIRUN)


SAY_OWN_NAME = ("-c", r'printf "%s\0" $$ "$0"')
"""Words for a shell that stands for the real one; a script would not hear its own name."""


def test_the_real_one_is_called_by_the_name_that_the_shim_has(world: ShimWorld) -> None:
    """Open MPI says it in its version, which other programs read, and behaves by it."""
    world.path(f"{MPI}/mpirun.real").unlink()
    world.link(f"{MPI}/mpirun.real", "/bin/bash")

    bare = world.call("mpirun", *SAY_OWN_NAME)
    elsewhere = world.call(MPIRUN, *SAY_OWN_NAME, PATH="/usr/bin:/bin")

    assert (bare.program, bare.keeps_the_process) == ("mpirun", True)
    assert (elsewhere.program, elsewhere.keeps_the_process) == (MPIRUN, True)


def test_without_bash_the_line_arrives_all_the_same(world: ShimWorld) -> None:
    """Not every image has one, and no other shell can give a name."""
    world.hide("/usr/bin/bash")

    said = world.call("mpirun", *HOSTILE)

    assert_handed_on(said, "mpirun.real", *HOSTILE)


@pytest.mark.parametrize("question", ["--version", "-V", "--help", "-h"])
def test_a_question_about_mpirun_itself_is_answered_by_the_real_one(
    world: ShimWorld, question: str
) -> None:
    """In a job too: scripts ask for the version before they launch."""
    said = world.call("mpirun", question, "mapping", **A_JOB)

    assert_handed_on(said, "mpirun.real", question, "mapping")


@pytest.mark.parametrize("question", ["--version", "-V", "--help", "-h"])
def test_an_option_of_the_program_is_no_question_about_mpirun(
    world: ShimWorld, question: str
) -> None:
    """`mpirun app --version` runs over the job's hosts."""
    said = world.call("mpirun", "app", question, **A_JOB)

    assert_handed_on(said, "mpi-agent", "launch", "--", MPIRUN, "app", question)


@pytest.mark.parametrize("off", ["off", "OFF", "Off", "0", "false", "no"])
def test_switched_off_the_shims_stand_aside_in_a_job(world: ShimWorld, off: str) -> None:
    """So the agent itself reaches the real ones by the usual names."""
    mpirun = world.call("mpirun", "-n", "2", "true", MPI_AGENT_SHIM=off, **A_JOB)
    sshd = world.call(SSHD, "-D", MPI_AGENT_SHIM=off)

    assert_handed_on(mpirun, "mpirun.real", "-n", "2", "true")
    assert_handed_on(sshd, "sshd.real", "-D")


@pytest.mark.parametrize("variables", [{}, A_JOB], ids=["outside", "in-a-job"])
def test_the_exit_code_is_that_of_whoever_got_the_line(
    world: ShimWorld, variables: dict[str, str]
) -> None:
    """The shim's process becomes the other's."""
    said = world.call("mpirun", "true", FAKE_EXIT="7", **variables)

    assert said.keeps_the_process
    assert said.code == 7


@pytest.mark.parametrize(
    "arguments",
    [
        ("-D",),
        ("-De",),
        ("-eD",),
        ("-D", "-e", "-f", "/home/mpiuser/.sshd_config"),
        ("-4De",),
        ("-p", "2222", "-D"),
        ("-p2222", "-D"),
        ("-f", "/x/-test", "-D"),
        ("-f", "-t", "-D"),
        ("-o", "Foo=-t", "-D"),
        ("-oBanner=/i/T/G/V", "-D"),
        ("-h", "a key", "-o", "", "-D"),
    ],
    ids=" ".join,
)
def test_a_server_in_the_foreground_is_a_worker(
    world: ShimWorld, arguments: tuple[str, ...]
) -> None:
    """Whatever else is said, and in whichever order: values of options are no options."""
    said = world.call(SSHD, *arguments)

    assert_handed_on(said, "mpi-agent", "worker", "--", *arguments)
    assert said.program == AGENT


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("-e",),
        ("-p", "2222"),
        ("-o", "Foo=-D"),
        ("-f", "-D"),
        ("-t",),
        ("-T",),
        ("-Dt",),
        ("-tD",),
        ("-tf", "/x/config"),
        ("-f", "/x/config", "-t"),
        ("-f", "/x/config", "-T", "-C", "user=mpiuser,host=x,addr=1.2.3.4"),
        ("-D", "-f", "/x/config", "-t"),
        ("-G",),
        ("-V",),
        ("-i",),
    ],
    ids=" ".join,
)
def test_every_other_call_is_for_the_real_sshd(
    world: ShimWorld, arguments: tuple[str, ...]
) -> None:
    """Tests of a configuration, the version, inetd, and a daemon in the background."""
    said = world.call(SSHD, *arguments)

    assert_handed_on(said, "sshd.real", *arguments)
    assert said.program == f"{SSHD}.real"


def test_sshd_is_a_worker_by_its_bare_name_too(world: ShimWorld) -> None:
    """OpenSSH wants to be called by an absolute path; the agent sees to that."""
    said = world.call("sshd", "-De", PATH=f"{SBIN}:/usr/bin:/bin")

    assert_handed_on(said, "mpi-agent", "worker", "--", "-De")


@pytest.mark.parametrize("name", ["mpiexec", "orterun", "my-own-name"])
def test_another_name_leads_to_the_same_real_one(world: ShimWorld, name: str) -> None:
    """A symlink in another directory, with nothing beside it."""
    world.link(f"/usr/sbin/{name}", MPIRUN)
    path = f"{SBIN}/{name}"

    assert_handed_on(world.call(path, "true"), "mpirun.real", "true")
    said = world.call(path, "true", **A_JOB)
    assert said.program == AGENT
    assert said.arguments[:2] == ("launch", "--")
    assert said.arguments[3:] == ("true",)
    assert said.arguments[2] in (path, MPIRUN)


def test_a_name_with_a_real_one_of_its_own_leads_to_that(world: ShimWorld) -> None:
    """Launchers differ by their names: `mpirun` of Intel MPI is not its `mpiexec`."""
    world.shim("mpirun", f"{MPI}/mpiexec")
    world.fake(f"{MPI}/mpiexec.real")

    assert_handed_on(world.call("mpiexec", "true"), "mpiexec.real", "true")
    said = world.call("mpiexec", "true", **A_JOB)
    assert_handed_on(said, "mpi-agent", "launch", "--", f"{MPI}/mpiexec", "true")


def test_an_absolute_path_leads_to_the_real_one(world: ShimWorld) -> None:
    """Also when PATH does not lead there."""
    said = world.call(MPIRUN, "true", PATH="/usr/bin:/bin")

    assert_handed_on(said, "mpirun.real", "true")


def test_a_path_with_blanks_and_a_relative_one_lead_to_the_real_one(world: ShimWorld) -> None:
    """However a script spells it."""
    world.shim("mpirun", "/my mpi/it's a *bin/mpirun")
    world.fake("/my mpi/it's a *bin/mpirun.real")

    absolute = world.call("/my mpi/it's a *bin/mpirun", "true")
    relative = world.call("sh", "-c", f"cd {MPI}; exec ./mpirun true")

    assert_handed_on(absolute, "mpirun.real", "true")
    assert_handed_on(relative, "mpirun.real", "true")


def test_the_real_one_of_another_directory_is_not_taken(world: ShimWorld) -> None:
    """Two MPIs, each with its shim: the one that was called is the one that runs."""
    world.shim("mpirun", f"{SBIN}/mpirun")
    world.fake(f"{SBIN}/mpirun.real")

    said = world.call(f"{SBIN}/mpirun", "true", PATH=f"{MPI}:{SBIN}:/usr/bin:/bin")

    assert said.program == f"{SBIN}/mpirun.real"


def test_a_shim_twice_in_path_does_not_call_the_other(world: ShimWorld) -> None:
    """The one that is found first has nothing beside it, and says so."""
    world.shim("mpirun", f"{SBIN}/mpirun")

    said = world.call("mpirun", "true", PATH=f"{SBIN}:{MPI}:/usr/bin:/bin")

    assert_refused(said, f"{SBIN}/mpirun")
