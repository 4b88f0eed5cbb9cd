"""The fields of an MPIJob, as a table: all that the v2beta1 API has, and of pods what examples use.

A field of a pod that an example begins to use is added here.

Source: mpi-operator v0.8.2, pkg/apis/kubeflow/v2beta1/types.go; Kubernetes API reference, Pod v1.
"""

from __future__ import annotations

from tests.docs.shapes import Fields, ListOf, MapOf, Scalar

__all__ = ["MPI_JOB", "POD_SPEC"]

_TEXT = Scalar(kinds=(str,))
_COUNT = Scalar(kinds=(int,))
_SWITCH = Scalar(kinds=(bool,))
_TEXT_OR_NUMBER = Scalar(kinds=(str, int))
_QUANTITIES = MapOf(value=_TEXT_OR_NUMBER)


def _one_of(*words: str) -> Scalar:
    return Scalar(kinds=(str,), words=frozenset(words))


_SECCOMP = Fields(of={"type": _one_of("RuntimeDefault", "Unconfined", "Localhost")})

_PROBE = Fields(
    of={
        "exec": Fields(of={"command": ListOf(item=_TEXT)}, required=frozenset({"command"})),
        "tcpSocket": Fields(of={"port": _TEXT_OR_NUMBER}, required=frozenset({"port"})),
        "httpGet": Fields(
            of={"path": _TEXT, "port": _TEXT_OR_NUMBER}, required=frozenset({"path", "port"})
        ),
        "initialDelaySeconds": _COUNT,
        "periodSeconds": _COUNT,
        "timeoutSeconds": _COUNT,
        "failureThreshold": _COUNT,
    }
)

_CONTAINER = Fields(
    of={
        "name": _TEXT,
        "image": _TEXT,
        "imagePullPolicy": _one_of("Always", "IfNotPresent", "Never"),
        "command": ListOf(item=_TEXT),
        "args": ListOf(item=_TEXT),
        "workingDir": _TEXT,
        "env": ListOf(
            item=Fields(of={"name": _TEXT, "value": _TEXT}, required=frozenset({"name"}))
        ),
        "ports": ListOf(item=Fields(of={"name": _TEXT, "containerPort": _COUNT})),
        "resources": Fields(of={"requests": _QUANTITIES, "limits": _QUANTITIES}),
        "readinessProbe": _PROBE,
        "livenessProbe": _PROBE,
        "startupProbe": _PROBE,
        "securityContext": Fields(
            of={
                "runAsUser": _COUNT,
                "runAsGroup": _COUNT,
                "runAsNonRoot": _SWITCH,
                "allowPrivilegeEscalation": _SWITCH,
                "readOnlyRootFilesystem": _SWITCH,
                "capabilities": Fields(of={"drop": ListOf(item=_TEXT), "add": ListOf(item=_TEXT)}),
                "seccompProfile": _SECCOMP,
            }
        ),
        "volumeMounts": ListOf(
            item=Fields(
                of={"name": _TEXT, "mountPath": _TEXT, "readOnly": _SWITCH},
                required=frozenset({"name", "mountPath"}),
            )
        ),
        "restartPolicy": _one_of("Always"),
    },
    required=frozenset({"name", "image"}),
)

POD_SPEC = Fields(
    of={
        "containers": ListOf(item=_CONTAINER),
        "initContainers": ListOf(item=_CONTAINER),
        "shareProcessNamespace": _SWITCH,
        "terminationGracePeriodSeconds": _COUNT,
        "nodeSelector": MapOf(value=_TEXT),
        "tolerations": ListOf(
            item=Fields(
                of={"key": _TEXT, "operator": _TEXT, "value": _TEXT, "effect": _TEXT},
            )
        ),
        "securityContext": Fields(
            of={
                "runAsNonRoot": _SWITCH,
                "runAsUser": _COUNT,
                "runAsGroup": _COUNT,
                "fsGroup": _COUNT,
                "seccompProfile": _SECCOMP,
            }
        ),
        "volumes": ListOf(
            item=Fields(
                of={
                    "name": _TEXT,
                    "emptyDir": Fields(
                        of={"medium": _one_of("Memory"), "sizeLimit": _TEXT_OR_NUMBER}
                    ),
                    "persistentVolumeClaim": Fields(of={"claimName": _TEXT}),
                },
                required=frozenset({"name"}),
            )
        ),
    },
    required=frozenset({"containers"}),
)

_METADATA = Fields(
    of={
        "name": _TEXT,
        "namespace": _TEXT,
        "labels": MapOf(value=_TEXT),
        "annotations": MapOf(value=_TEXT),
    }
)

_REPLICAS = Fields(
    of={
        "replicas": _COUNT,
        "restartPolicy": _one_of("Never", "OnFailure"),
        "template": Fields(
            of={"metadata": _METADATA, "spec": POD_SPEC}, required=frozenset({"spec"})
        ),
    },
    required=frozenset({"template"}),
)

_RUN_POLICY = Fields(
    of={
        "cleanPodPolicy": _one_of("None", "Running", "All"),
        "ttlSecondsAfterFinished": _COUNT,
        "activeDeadlineSeconds": _COUNT,
        "backoffLimit": _COUNT,
        "suspend": _SWITCH,
        "managedBy": _TEXT,
        "schedulingPolicy": Fields(
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

MPI_JOB = Fields(
    of={
        "apiVersion": _one_of("kubeflow.org/v2beta1"),
        "kind": _one_of("MPIJob"),
        "metadata": _METADATA,
        "spec": Fields(
            of={
                "slotsPerWorker": _COUNT,
                "runLauncherAsWorker": _SWITCH,
                "sshAuthMountPath": _TEXT,
                "launcherCreationPolicy": _one_of("AtStartup", "WaitForWorkersReady"),
                "mpiImplementation": _one_of("OpenMPI", "Intel", "MPICH"),
                "runPolicy": _RUN_POLICY,
                "mpiReplicaSpecs": Fields(
                    of={"Launcher": _REPLICAS, "Worker": _REPLICAS},
                    required=frozenset({"Launcher"}),
                ),
            },
            required=frozenset({"mpiReplicaSpecs"}),
        ),
    },
    required=frozenset({"apiVersion", "kind", "metadata", "spec"}),
)
