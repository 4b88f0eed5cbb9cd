"""Manifests for mpi-operator say what its API, the agent and the images understand.

The MPIJobs of examples/mpi-operator are run as well, by tests/e2e; those that need GPUs or a gang
scheduler are read here alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from mpi_agent.command.build import build_plan
from mpi_agent.command.program_kind import ProgramKind, kind_of_program
from mpi_agent.job.stacks import MpiStack
from tests.builders import (
    INTEL_STACK,
    MPICH_STACK,
    OPEN_MPI_4_STACK,
    OPEN_MPI_5_STACK,
    a_host_list,
    a_launch_request,
)
from tests.docs.example_manifests import (
    EXAMPLES,
    ROOT,
    Document,
    containers_of,
    document_of,
    first_container_of,
    header_of,
    mpi_jobs,
    parse_agent_call,
    pod_of,
)
from tests.docs.mpijob_fields import MPI_JOB
from tests.docs.shapes import problems

HOW_TO = ROOT / "docs/how-to/from-the-operators-images.md"
OPERATOR = EXAMPLES / "mpi-operator"
STACKS_OF = {
    "OpenMPI": (OPEN_MPI_4_STACK, OPEN_MPI_5_STACK),
    "MPICH": (MPICH_STACK,),
    "Intel": (INTEL_STACK,),
}
NEEDS_WHAT_IS_NOT_HERE = {
    *("gang-scheduler-plugins.yaml", "gang-volcano.yaml"),
    *("horovod.yaml", "nccl-tests.yaml", "pytorch-ddp.yaml"),
}
"""A gang scheduler, or GPUs."""
SIDECARS = (OPERATOR / "sidecar.yaml", EXAMPLES / "sidecar/pod.yaml")
every_job = pytest.mark.parametrize(
    "path", mpi_jobs(), ids=lambda path: f"{path.parent.name}-{path.stem}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """What an operator with a gang scheduler takes from a job, and what it adds to its pods.

    Attributes:
        fields: of schedulingPolicy, as far as they reach the PodGroup.
        flag: by which the operator is told.
        mark: the annotation or label by which a pod belongs to its PodGroup.
    """

    file: str
    fields: frozenset[str]
    flag: str
    mark: str


# Source: mpi-operator v0.8.2, pkg/controller/podgroup.go, newPodGroup and decoratePodTemplateSpec.
GANGS = (
    Gang(
        file="gang-volcano.yaml",
        fields=frozenset({"minAvailable", "queue", "priorityClass", "minResources"}),
        flag="--gang-scheduling=volcano",
        mark="the annotation scheduling.k8s.io/group-name",
    ),
    Gang(
        file="gang-scheduler-plugins.yaml",
        fields=frozenset({"minAvailable", "scheduleTimeoutSeconds", "minResources"}),
        flag="--gang-scheduling=",
        mark="the label scheduling.x-k8s.io/pod-group",
    ),
)
every_gang = pytest.mark.parametrize("gang", GANGS, ids=lambda gang: gang.file)


@every_job
def test_an_mpijob_has_no_field_that_the_api_does_not_know(path: Path) -> None:
    """The API server would drop it, or refuse the job; each is named with its place."""
    assert list(problems(document_of(path), MPI_JOB, path.name)) == []


def test_a_field_that_is_no_field_is_named_with_its_place() -> None:
    """Wrong names, wrong kinds and wrong words alike."""
    job = document_of(OPERATOR / "pi.yaml")
    job["spec"]["mpiImplementation"] = "OpenMpi"
    job["spec"]["runPolicy"]["schedulingPolicy"] = {"minAvailable": "4", "minMember": 4}

    assert list(problems(job, MPI_JOB, "pi.yaml")) == [
        "pi.yaml.spec.runPolicy.schedulingPolicy.minAvailable is a str: '4'",
        "pi.yaml.spec.runPolicy.schedulingPolicy.minMember is no field",
        "pi.yaml.spec.mpiImplementation is 'OpenMpi', which is none of "
        "['Intel', 'MPICH', 'OpenMPI']",
    ]


@every_job
def test_the_launchers_line_becomes_a_plan_for_every_slot_of_every_worker(path: Path) -> None:
    """With each MPI that the job may hold."""
    job = document_of(path)
    replicas = job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]
    hosts = a_host_list(replicas, slots=job["spec"].get("slotsPerWorker", 1))
    launcher = first_container_of(job, "Launcher")
    program = launcher.argv
    if launcher.agent_call:
        program = parse_agent_call(launcher.agent_call)
    request = a_launch_request(*program, environ=dict(launcher.variables))

    for stack in stacks_of(job, program):
        plan = build_plan(request, hosts, stack)
        assert plan.np == hosts.total_slots


def stacks_of(job: Document, program: tuple[str, ...]) -> tuple[MpiStack | None, ...]:
    """Return the MPIs that a job may hold; none for a program that starts its ranks itself."""
    stacks = STACKS_OF[job["spec"].get("mpiImplementation", "OpenMPI")]
    return stacks if kind_of_program(program) is not ProgramKind.OTHER_LAUNCHER else (None,)


def test_every_gang_example_is_looked_at() -> None:
    """By the tests below."""
    assert {path.name for path in OPERATOR.glob("gang-*.yaml")} == {gang.file for gang in GANGS}


@every_gang
def test_a_gang_says_all_that_reaches_its_podgroup_and_nothing_else(gang: Gang) -> None:
    """Each scheduler has fields that the other has not."""
    policy = document_of(OPERATOR / gang.file)["spec"]["runPolicy"]["schedulingPolicy"]

    assert policy.keys() == gang.fields


@every_gang
def test_a_gang_is_the_launcher_and_all_workers(gang: Gang) -> None:
    """And what it reserves is what they request together."""
    job = document_of(OPERATOR / gang.file)
    policy = job["spec"]["runPolicy"]["schedulingPolicy"]
    replicas = job["spec"]["mpiReplicaSpecs"]
    counts = {"Launcher": 1, "Worker": replicas["Worker"]["replicas"]}
    requested: Counter[str] = Counter()
    for role, count in counts.items():
        for container in containers_of(pod_of(job, role)):
            for name, quantity in container.fields["resources"]["requests"].items():
                requested[name] += count * int(quantity.removesuffix("Gi"))

    assert policy["minAvailable"] == counts["Worker"] + 1
    assert policy["minResources"] == {
        "cpu": f"{requested['cpu']}",
        "memory": f"{requested['memory']}Gi",
    }


@every_gang
def test_a_gang_leaves_to_the_operator_what_it_writes_itself(gang: Gang) -> None:
    """The scheduler's name and the group of every pod; the header says both, and the flag."""
    job = document_of(OPERATOR / gang.file)
    replicas = job["spec"]["mpiReplicaSpecs"]
    header = " ".join(header_of(OPERATOR / gang.file).split())

    assert f"`{gang.flag}`" in header
    assert "overwrites schedulerName" in header
    assert gang.mark in header
    for role in ("Launcher", "Worker"):
        assert "metadata" not in replicas[role]["template"]
        assert "schedulerName" not in pod_of(job, role)


def test_the_launcher_that_waits_is_made_by_the_workers_own_word() -> None:
    """Without a readiness probe a container is Ready as soon as it runs."""
    job = document_of(OPERATOR / "wait-for-workers.yaml")
    worker = first_container_of(job, "Worker")

    assert job["spec"]["launcherCreationPolicy"] == "WaitForWorkersReady"
    assert worker.fields["readinessProbe"]["exec"]["command"] == ["mpi-agent", "ready"]


def test_the_hardened_pods_are_what_a_restricted_namespace_asks_for() -> None:
    """And write nowhere but to an emptyDir; the keys are mounted where another uid may go.

    Source: Kubernetes documentation, "Pod Security Standards", Restricted.
    """
    job = document_of(OPERATOR / "hardened.yaml")

    assert not job["spec"]["sshAuthMountPath"].startswith("/root")
    for role in ("Launcher", "Worker"):
        pod = pod_of(job, role)
        (container,) = containers_of(pod)
        context = container.fields["securityContext"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["fsGroup"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert container.fields["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]
        assert pod["volumes"] == [{"name": "tmp", "emptyDir": {}}]


def test_the_first_container_of_a_worker_is_never_the_sidecar() -> None:
    """The operator mounts the job's keys into `containers[0]`, and into no other."""
    for path in mpi_jobs():
        first = first_container_of(document_of(path), "Worker")
        assert first.agent_call[:1] != ("sidecar",)
        assert not first.fields.get("restartPolicy")


@pytest.mark.parametrize("path", SIDECARS, ids=lambda path: path.stem)
def test_a_sidecar_may_read_what_the_ranks_beside_it_have_in_their_environment(path: Path) -> None:
    """It shares their processes, and has their uid and their group, which the pod says for both.

    Source: ptrace(2), "Ptrace access mode checking", Linux man-pages 6.03.
    """
    document = document_of(path)
    pod = document["spec"] if document["kind"] == "Pod" else pod_of(document, "Worker")

    assert pod["shareProcessNamespace"] is True
    assert {"runAsUser", "runAsGroup"} <= pod["securityContext"].keys()
    for container in containers_of(pod):
        assert "runAsUser" not in container.fields.get("securityContext", {})


def test_every_example_is_run_by_a_container_test_or_needs_what_is_not_here() -> None:
    """No example is left out in silence; tests of pages read those that are not run."""
    tests = "".join(path.read_text() for path in (ROOT / "tests/e2e").glob("test_*.py"))
    names = {path.name for path in OPERATOR.glob("*.yaml")}

    assert {name for name in names if f'"{name}"' not in tests} == NEEDS_WHAT_IS_NOT_HERE


def test_the_page_leads_to_every_example() -> None:
    """Of examples/mpi-operator, manifests and recipes, and the one of restarts."""
    text = HOW_TO.read_text()
    wanted = [*OPERATOR.glob("*.yaml"), *OPERATOR.glob("Dockerfile*")]

    for path in (*wanted, EXAMPLES / "restart/restart.yaml"):
        assert f"(../../{path.relative_to(ROOT)})" in text
