"""The fields of an MPIJob, as a table: all that the v2beta1 API has, and of pods what examples use.

A field of a pod that an example begins to use is added here, and to `tests.e2e.manifest_pods`,
which knows the same ones.

Source: mpi-operator v0.8.2, pkg/apis/kubeflow/v2beta1/types.go; Kubernetes API reference, Pod v1.
"""

from __future__ import annotations

from tests.docs.shapes import ListOf, MapOf, Record, Scalar

__all__ = ["MPI_JOB"]

_TEXT = Scalar(kinds=(str,))
_COUNT = Scalar(kinds=(int,))
_SWITCH = Scalar(kinds=(bool,))
_TEXT_OR_NUMBER = Scalar(kinds=(str, int))
_QUANTITIES = MapOf(value=_TEXT_OR_NUMBER)


def _one_of(*words: str) -> Scalar:
    return Scalar(kinds=(str,), words=frozenset(words))


_SECCOMP = Record(of={"type": _one_of("RuntimeDefault", "Unconfined", "Localhost")})

_PROBE = Record(
    of={
        "exec": Record(of={"command": ListOf(item=_TEXT)}, required=frozenset({"command"})),
        "tcpSocket": Record(of={"port": _TEXT_OR_NUMBER}, required=frozenset({"port"})),
        "httpGet": Record(
            of={"path": _TEXT, "port": _TEXT_OR_NUMBER}, required=frozenset({"port"})
        ),
        "initialDelaySeconds": _COUNT,
        "periodSeconds": _COUNT,
        "timeoutSeconds": _COUNT,
        "failureThreshold": _COUNT,
    }
)

_CONTAINER = Record(
    of={
        "name": _TEXT,
        "image": _TEXT,
        "command": ListOf(item=_TEXT),
        "args": ListOf(item=_TEXT),
        "env": ListOf(
            item=Record(of={"name": _TEXT, "value": _TEXT}, required=frozenset({"name", "value"}))
        ),
        "ports": ListOf(item=Record(of={"name": _TEXT, "containerPort": _COUNT})),
        "resources": Record(of={"requests": _QUANTITIES, "limits": _QUANTITIES}),
        "readinessProbe": _PROBE,
        "livenessProbe": _PROBE,
        "securityContext": Record(
            of={
                "runAsUser": _COUNT,
                "runAsGroup": _COUNT,
                "runAsNonRoot": _SWITCH,
                "allowPrivilegeEscalation": _SWITCH,
                "readOnlyRootFilesystem": _SWITCH,
                "capabilities": Record(of={"drop": ListOf(item=_TEXT)}),
                "seccompProfile": _SECCOMP,
            }
        ),
        "volumeMounts": ListOf(
            item=Record(
                of={"name": _TEXT, "mountPath": _TEXT},
                required=frozenset({"name", "mountPath"}),
            )
        ),
        "restartPolicy": _one_of("Always"),
    },
    required=frozenset({"name", "image"}),
)

_POD_SPEC = Record(
    of={
        "containers": ListOf(item=_CONTAINER),
        "initContainers": ListOf(item=_CONTAINER),
        "shareProcessNamespace": _SWITCH,
        "securityContext": Record(
            of={
                "runAsNonRoot": _SWITCH,
                "runAsUser": _COUNT,
                "runAsGroup": _COUNT,
                "fsGroup": _COUNT,
                "seccompProfile": _SECCOMP,
            }
        ),
        "volumes": ListOf(
            item=Record(
                of={
                    "name": _TEXT,
                    "emptyDir": Record(
                        of={"medium": _one_of("Memory"), "sizeLimit": _TEXT_OR_NUMBER}
                    ),
                    "persistentVolumeClaim": Record(of={"claimName": _TEXT}),
                },
                required=frozenset({"name"}),
            )
        ),
    },
    required=frozenset({"containers"}),
)

_METADATA = Record(
    of={
        "name": _TEXT,
        "namespace": _TEXT,
        "labels": MapOf(value=_TEXT),
        "annotations": MapOf(value=_TEXT),
    }
)

_REPLICAS = Record(
    of={
        "replicas": _COUNT,
        "restartPolicy": _one_of("Never", "OnFailure"),
        "template": Record(
            of={"metadata": _METADATA, "spec": _POD_SPEC}, required=frozenset({"spec"})
        ),
    },
    required=frozenset({"template"}),
)

_RUN_POLICY = Record(
    of={
        "cleanPodPolicy": _one_of("None", "Running", "All"),
        "ttlSecondsAfterFinished": _COUNT,
        "activeDeadlineSeconds": _COUNT,
        "backoffLimit": _COUNT,
        "suspend": _SWITCH,
        "managedBy": _TEXT,
        "schedulingPolicy": Record(
            of={
                "minAvailable": _COUNT,
                "queue": _TEXT,
                "minResources": _QUANTITIES,
                "priorityClass": _TEXT,
                "scheduleTimeoutSeconds": _COUNT,
            }
        ),
    }
)

MPI_JOB = Record(
    of={
        "apiVersion": _one_of("kubeflow.org/v2beta1"),
        "kind": _one_of("MPIJob"),
        "metadata": _METADATA,
        "spec": Record(
            of={
                "slotsPerWorker": _COUNT,
                "runLauncherAsWorker": _SWITCH,
                "sshAuthMountPath": _TEXT,
                "launcherCreationPolicy": _one_of("AtStartup", "WaitForWorkersReady"),
                "mpiImplementation": _one_of("OpenMPI", "Intel", "MPICH"),
                "runPolicy": _RUN_POLICY,
                "mpiReplicaSpecs": Record(
                    of={"Launcher": _REPLICAS, "Worker": _REPLICAS},
                    required=frozenset({"Launcher"}),
                ),
            },
            required=frozenset({"mpiReplicaSpecs"}),
        ),
    },
    required=frozenset({"apiVersion", "kind", "metadata", "spec"}),
)
