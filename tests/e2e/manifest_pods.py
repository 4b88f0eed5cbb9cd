"""Reads the pods of a manifest; `tests.docs.mpijob_fields` knows the same fields of a pod."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.e2e.manifest_fields import Fields
from tests.e2e.mpi_jobs import ExecProbe, HttpProbe, PodTemplate, Probe, TcpProbe

__all__ = ["ReadPod", "read_pod"]

_WITHOUT_MEANING_IN_A_CONTAINER = ("name", "resources")
_WITHOUT_MEANING_IN_A_PROBE = (
    "failureThreshold",
    "initialDelaySeconds",
    "periodSeconds",
    "timeoutSeconds",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPod:
    """A pod, and the group that may read its volumes."""

    template: PodTemplate
    fs_group: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context:
    """What a container has of its pod."""

    uid: int | None
    gid: int | None
    must_not_be_root: bool
    empty_dirs: frozenset[str]
    claims: tuple[tuple[str, str], ...]


def read_pod(fields: Fields, default: tuple[str, ...] = ()) -> ReadPod:
    """Return the pod of a `template`.

    Args:
        default: command line of the main container if the manifest gives none.
    """
    with fields, fields.part("spec") as spec:
        fields.pass_over("metadata")
        with spec.part("securityContext") as security:
            fs_group = security.take("fsGroup", None)
            _pass_over_seccomp(security)
            context = _context_of(spec, security)
        (main, *more) = [_container(one, context, default) for one in spec.parts("containers")]
        beside = [_sidecar(one, context) for one in spec.parts("initContainers")]
        if more or len(beside) > 1:
            raise spec.refuse("it has more than one container and one sidecar")
        shares_processes = spec.take("shareProcessNamespace", False)
    sidecar = beside[0] if beside else None
    template = replace(main, sidecar=sidecar, shares_processes=shares_processes)
    return ReadPod(template=template, fs_group=fs_group)


def _context_of(spec: Fields, security: Fields) -> _Context:
    empty_dirs, claims = set(), {}
    for volume in spec.parts("volumes"):
        name = volume.take("name")
        if (claim := volume.take("persistentVolumeClaim", None)) is not None:
            claims[name] = claim["claimName"]
            continue
        with volume.part("emptyDir") as empty:
            empty.pass_over("medium", "sizeLimit")
        empty_dirs.add(name)
    return _Context(
        uid=security.take("runAsUser", None),
        gid=security.take("runAsGroup", None),
        must_not_be_root=security.take("runAsNonRoot", False),
        empty_dirs=frozenset(empty_dirs),
        claims=tuple(claims.items()),
    )


def _sidecar(fields: Fields, context: _Context) -> PodTemplate:
    if fields.take("restartPolicy", None) != "Always":
        raise fields.refuse("an init container that ends is not laid out")
    found = _container(fields, context, ())
    if found.empty_dirs or found.claims:
        raise fields.refuse("a sidecar has no volumes here")
    return found


def _container(fields: Fields, context: _Context, default: tuple[str, ...]) -> PodTemplate:
    fields.pass_over(*_WITHOUT_MEANING_IN_A_CONTAINER)
    ports = _named_ports(fields)
    with fields.part("securityContext") as security:
        uid = security.take("runAsUser", context.uid)
        gid = security.take("runAsGroup", context.gid)
        if security.take("runAsNonRoot", context.must_not_be_root) and not uid:
            raise security.refuse("runAsNonRoot without a runAsUser that is not root")
        _pass_over_seccomp(security)
        is_hardened = _is_hardened(security)
    empty_dirs, claims = _mounts(fields, context)
    command, arguments = fields.words("command"), fields.words("args")
    argv = (*command, *arguments) or default
    return PodTemplate(
        argv=argv,
        keeps_entrypoint=argv == arguments,
        image=fields.take("image"),
        uid=uid,
        gid=gid,
        readiness=_probe(fields, "readinessProbe", ports),
        liveness=_probe(fields, "livenessProbe", ports),
        variables=_variables(fields),
        is_hardened=is_hardened,
        empty_dirs=empty_dirs,
        claims=claims,
    )


def _is_hardened(security: Fields) -> bool:
    """Return whether all three restrictions are there; one or two of them are not laid out."""
    with security.part("capabilities") as capabilities:
        drops_all = capabilities.words("drop") == ("ALL",)
    reads_only = bool(security.take("readOnlyRootFilesystem", False))
    may_escalate = bool(security.take("allowPrivilegeEscalation", True))
    if not drops_all == reads_only == (not may_escalate):
        raise security.refuse(
            "hardened in part: read-only root, drop ALL and no escalation go together"
        )
    return drops_all


def _pass_over_seccomp(security: Fields) -> None:
    """Pass over the profile that the engine has by itself."""
    with security.part("seccompProfile") as profile:
        if profile.take("type", "RuntimeDefault") != "RuntimeDefault":
            raise profile.refuse("only RuntimeDefault is laid out")


def _named_ports(fields: Fields) -> dict[str, int]:
    named = {}
    for port in fields.parts("ports"):
        named[port.take("name", "")] = port.take("containerPort")
    return named


def _variables(fields: Fields) -> tuple[tuple[str, str], ...]:
    found = []
    for one in fields.parts("env"):
        name, value = one.take("name"), one.take("value")
        if not isinstance(value, str):
            raise one.refuse("value is not a string")
        found.append((name, value))
    return tuple(found)


def _mounts(
    fields: Fields, context: _Context
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    claim_of, empty_dirs, claims = dict(context.claims), [], []
    for mount in fields.parts("volumeMounts"):
        name, path = mount.take("name"), mount.take("mountPath")
        if name in context.empty_dirs:
            empty_dirs.append(path)
        elif name in claim_of:
            claims.append((claim_of[name], path))
        else:
            raise mount.refuse(f"there is no volume {name!r}")
    return tuple(empty_dirs), tuple(claims)


def _probe(fields: Fields, name: str, ports: dict[str, int]) -> Probe | None:
    with fields.part(name) as probe:
        probe.pass_over(*_WITHOUT_MEANING_IN_A_PROBE)
        with probe.part("exec") as command, probe.part("tcpSocket") as tcp:
            found: list[Probe] = []
            if argv := command.words("command"):
                found.append(ExecProbe(command=argv))
            if port := tcp.take("port", None):
                found.append(TcpProbe(port=ports.get(port, port)))
        with probe.part("httpGet") as page:
            if port := page.take("port", None):
                path = page.take("path", "/")
                found.append(HttpProbe(port=ports.get(port, port), path=path))
        if len(found) > 1:
            raise probe.refuse("it is more than one probe")
    return found[0] if found else None
