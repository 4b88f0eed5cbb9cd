"""Which symptom each file of the corpus shows as the root, read by people, file by file."""

from __future__ import annotations

__all__ = ["NOTHING_KNOWN", "ROOTS"]

ROOTS: dict[str, str] = {
    "host-name-unknown": "mpich4-dns-missing ompi4-dns-missing ompi5-dns-missing",
    "name-server-failed": "ssh-dns-temporary",
    "launcher-name-unknown": "hydra-launcher-unknown",
    "ssh-refused": "mpich4-ssh-refused ompi4-ssh-refused ompi5-ssh-refused",
    "ssh-timeout": "mpich4-ssh-filtered-ct5 ompi4-ssh-filtered-ct5 ompi5-ssh-filtered-ct5",
    "ssh-no-route": "ssh-net-unreachable ssh-no-route",
    "ssh-host-key-changed": "mpich4-hostkey-changed ompi4-hostkey-changed ompi5-hostkey-changed",
    "ssh-host-key-unknown": "mpich4-hostkey-unknown ompi4-hostkey-unknown ompi5-hostkey-unknown",
    "ssh-key-mode": (
        "key-too-open-operator mpich4-key-bad-permissions ompi4-key-bad-permissions "
        "ompi5-key-bad-permissions sshd-hostkey-mode"
    ),
    "ssh-key-unreadable": "ssh-key-unreadable",
    "ssh-dropped": "ssh-maxstartups",
    "ssh-login-refused": "mpich4-permission-denied ompi5-permission-denied",
    "deepspeed-host-unreachable": "deepspeed-ssh",
    "sshd-no-host-keys": "sshd-no-hostkeys",
    "sshd-no-run-directory": "sshd-privsep",
    "sshd-no-chroot": "kex-reset-operator",
    "sshd-strict-modes": "sshd-strict-modes",
    "sshd-account-locked": "sshd-account-locked",
    "sshd-port-taken": "sshd-port-taken",
    "daemon-root-refused": "ompi4-version-mismatch",
    "daemon-version-differs": (
        "mpich4-version-mismatch ompi5-version-mismatch orte-version-mismatch prte-version-mismatch"
    ),
    "daemon-missing": (
        "impi-daemon-missing mpich4-daemon-missing ompi4-daemon-missing ompi5-daemon-missing"
    ),
    "ssh-client-missing": (
        "mpich4-ssh-missing mpich5-ssh-missing ompi4-ssh-missing ompi5-ssh-missing"
    ),
    "kubectl-missing": "operator-v1-kubectl",
    "deepspeed-pdsh-arguments": "deepspeed-pdsh",
    "batch-system-guessed": "ompi4-srun-missing ompi5-srun-missing",
    "launcher-libraries-mixed": "ompi5-mpi-app-of-4.1-lib",
    "pmix-out-of-resource": "pmix-out-of-resource",
    "prte-daemon-not-started": "ompi5-kill-host",
    "orte-daemon-not-started": "ompi4-kill-host ompi4-net-cut-serveralive15",
    "intel-ssh-failed": (
        "impi-hostkey-unknown impi-key-bad-permissions impi-permission-denied "
        "impi-ssh-filtered-ct5 impi-ssh-missing impi-ssh-refused"
    ),
    "daemon-cannot-call-back": "hydra-call-back-refused",
    "hydra-lost-its-proxy": (
        "mpich4-daemon-silent mpich4-rank-exit7-others-sleep mpich4-rank-exit7 mpich4-sigint "
        "mpich4-sigterm-twice mpich4-sigterm mpich4-wdir-missing mpich5-kill-host"
    ),
    "root-refused": "ompi4-root-no-allow ompi5-root-no-allow",
    "slots-exceeded": "ompi4-np-gt-slots ompi5-np-gt-slots",
    "binding-exceeds-cpus": "ompi4-bind-overload ompi4-bind-too-many ompi5-bind-overload",
    "mapping-failed": "ompi5-bind-too-many",
    "executable-missing": (
        "impi-exe-missing-everywhere impi-exe-missing-on-one-worker mpich4-exe-missing-everywhere "
        "mpich4-exe-missing-on-one-worker mpich5-exe-missing ompi4-exe-missing-everywhere "
        "ompi4-exe-missing-on-one-worker ompi4-exe-not-executable ompi5-exe-missing-everywhere "
        "ompi5-exe-missing-on-one-worker ompi4-exe-not-on-path ompi5-exe-not-on-path "
        "ompi507-exe-not-on-path ompi507-exe-missing-everywhere ompi507-exe-not-executable"
    ),
    "working-directory-missing": "ompi4-wdir-refused ompi507-wdir-refused",
    "program-not-executable": (
        "impi-exe-not-executable mpich4-exe-not-executable program-permission"
    ),
    "executable-wrong-format": "ompi4-exec-format ompi5-exec-format program-execformat",
    "hostfile-missing": (
        "impi-hostfile-missing mpich4-hostfile-missing ompi4-hostfile-missing "
        "ompi5-hostfile-missing"
    ),
    "hostfile-of-other-mpi": "impi-hostfile-slots mpich4-hostfile-slots",
    "hostfile-invalid": "deepspeed-hostfile ompi4-hostfile-bad ompi5-hostfile-bad",
    "slots-defined-twice": "slots-defined-twice",
    "option-unknown": (
        "impi-unknown-option mpich4-unknown-option ompi4-unknown-option ompi5-unknown-option"
    ),
    "session-directory-unwritable": "ompi4-tmp-unwritable ompi5-tmp-unwritable",
    "user-without-name": "no-username ssh-uid",
    "mounts-unreadable": "proc-mounts",
    "out-of-memory-kernel": "kernel-oom-container kernel-oom-operator",
    "out-of-memory-program": "ompi5-memory-error program-bad-alloc",
    "shared-memory-full": "dataloader-shm mpich4-shm-64k nccl-shm-2.2x nccl-shm-2.9",
    "shared-memory-bus-error": "impi-shm-64k ompi4-sigbus ompi5-sigbus ucx-bus-error",
    "shared-memory-short": (
        "ompi4-shm-64k ompi5-net-cut-serveralive15 ompi5-net-cut ompi5-sigstop-worker"
    ),
    "disk-full": "program-disk-full",
    "file-system-read-only": "program-readonly",
    "open-files-exhausted": "ompi4-fds ompi507-fds ompi5-fds program-too-many-files",
    "processes-exhausted": "process-limit program-threads",
    "arguments-too-long": "program-arglist",
    "gpu-out-of-memory": "cuda-out-of-memory-torch1 cuda-out-of-memory-torch2 jax-out-of-memory",
    "gpu-driver-too-old": "cuda-driver-too-old nccl-driver-too-old",
    "gpu-kernel-missing": "cuda-no-kernel-image",
    "gpu-illegal-access": "cuda-illegal-access",
    "gpu-hardware-failed": "cuda-ecc gpu-fell-off",
    "gpu-library-mismatch": "nvml-mismatch",
    "gpu-library-missing": "program-cuda-lib",
    "memlock-too-small": "efa-memlock nccl-ib-memlock ucx-memlock-old ucx-memlock",
    "ucx-no-transport": "ucx-unreachable",
    "fabric-no-answer": "ucx-retry-exceeded",
    "libfabric-call-failed": "ofi-call-failed",
    "cross-memory-refused": "cma-refused",
    "nccl-no-interface": "nccl-interface-unknown nccl-no-socket-interface",
    "nccl-duplicate-gpu": "nccl-duplicate-gpu",
    "nccl-collectives-differ": "nccl-collective-mismatch",
    "nccl-ib-no-answer": "nccl-ib-completion",
    "nccl-connect-failed": "nccl-connect-failed nccl-connect-refused",
    "nccl-watchdog": "nccl-watchdog",
    "nccl-peer-gone": "nccl-peer-closed nccl-remote-error",
    "nccl-cuda-failed": "nccl-unhandled-cuda",
    "nccl-system-failed": "nccl-system-error",
    "mpi-peers-unreachable": "ompi5-btl-unreachable",
    "address-family-unsupported": "nccl-address-family",
    "mpi-component-missing": "no-pml ompi5-btl-missing openib-missing",
    "mpi-transports-differ": "pml-mismatch",
    "mpi-connect-failed": "btl-tcp-no-route",
    "gloo-mesh-failed": "gloo-full-mesh",
    "gloo-timeout": "gloo-timeout",
    "gloo-peer-gone": "gloo-closed",
    "torch-store-timeout": "torch-store-timeout",
    "port-taken": "program-bind torch-port-taken",
    "horovod-no-interface": "horovodrun-unreachable",
    "horovod-rank-behind": "horovod-stalled",
    "horovod-shut-down": "horovod-shut-down",
    "library-missing": (
        "impi-lib-missing-on-one-worker mpich4-lib-missing-on-one-worker program-library-missing"
    ),
    "library-too-old": "program-library-too-old",
    "library-of-other-version": "program-import-so program-symbol-missing",
    "mpi-of-other-version": "ompi5-lib-missing-on-one-worker",
    "python-module-missing": "ompi5-module-missing",
    "program-not-found": "program-not-found program-shebang program-shebang2",
    "message-truncated": "impi-truncate mpich5-truncate ompi4-truncate ompi5-truncate",
    "fortran-runtime-error": "fortran-gfortran fortran-intel",
    "heap-corrupted": "program-double-free program-stack-smashed",
    "cpp-exception": "program-throw",
    "python-exception": "mpich5-traceback ompi5-traceback",
    "rank-segfault": (
        "impi-rank-sigsegv-tagged mpich4-rank-sigsegv mpich5-rank-sigsegv-tagged "
        "ompi4-rank-sigsegv ompi5-rank-sigsegv"
    ),
    "rank-aborted": "impi-rank-sigabrt mpich4-rank-sigabrt ompi5-rank-sigabrt",
    "rank-illegal-instruction": "impi-signal-4 mpich4-signal-4 ompi5-sigill",
    "rank-arithmetic": "impi-signal-8 ompi5-signal-8",
    "rank-broken-pipe": "ompi507-bad-interpreter",
    "rank-terminated": (
        "impi-rank-sigterm-one-host impi-rank-sigterm mpich4-rank-sigterm "
        "mpich5-rank-sigterm-one-host ompi4-rank-sigterm ompi5-rank-sigterm"
    ),
    "rank-killed": "ompi4-kill9-rank ompi4-rank-sigkill ompi5-kill9-rank ompi5-rank-sigkill",
    "mpi-abort": (
        "impi-mpi-abort255 impi-mpi-abort3 mpich4-mpi-abort3 mpich5-mpi-abort255 "
        "mpich5-mpi-abort3-tagged ompi4-mpi-abort3-tagged ompi4-mpi-abort3 "
        "ompi5-mpi-abort3-tagged ompi5-mpi-abort3"
    ),
    "rank-exit-code": (
        "ompi4-nonmpi-exit7 ompi4-rank-exit7-after-finalize ompi4-rank-exit7 ompi5-nonmpi-exit7 "
        "ompi5-rank-exit15 ompi5-rank-exit255 ompi5-rank-exit7-after-finalize ompi5-rank-exit7"
    ),
    "hydra-rank-killed": (
        "impi-rank-exit7-one-host impi-rank-exit7 impi-rank-sigkill-one-host impi-rank-sigkill "
        "mpich4-rank-sigkill mpich4-ranks-sigterm mpich5-rank-sigkill-one-host"
    ),
    "mpich-fatal-error": "mpich4-kill9-rank",
    "daemon-lost": (
        "ompi4-kill9-daemon ompi4-net-cut-oobkeepalive25 ompi5-kill9-daemon "
        "ompi5-net-cut-oobkeepalive25 impi-kill-host"
    ),
    "ssh-connection-closed": (
        "impi-kill-worker mpich4-kill-worker ompi4-kill-worker ompi5-kill-worker"
    ),
    "ssh-host-silent": "ssh-server-silent",
}
"""Ids, and the names of the files."""

NOTHING_KNOWN = (
    "impi-app-of-mpich5 impi-app-of-other-mpi impi-daemon-silent impi-kill9-daemon "
    "impi-kill9-rank impi-net-cut-serveralive15 impi-net-cut impi-nonmpi-exit7 impi-np-gt-slots "
    "impi-rank-exit7-after-finalize impi-sigint impi-sigkill impi-sigstop-worker "
    "impi-sigterm-twice impi-sigterm impi-wdir-missing mpich4-app-of-mpich5 "
    "mpich4-app-of-other-mpi mpich4-kill9-daemon mpich4-net-cut-serveralive15 mpich4-net-cut "
    "mpich4-nonmpi-exit7 mpich4-np-gt-slots mpich4-rank-exit7-after-finalize mpich4-sigkill "
    "mpich4-sigstop-worker mpich5-rank-exit7-one-host mpich5-ranks-sigint ompi4-app-of-other-mpi "
    "ompi4-daemon-silent ompi4-mpi-app-of-5.0-lib ompi4-net-cut "
    "ompi4-np-gt-slots-oversubscribe-env ompi4-np-gt-slots-oversubscribe ompi4-sigint "
    "ompi4-sigkill ompi4-sigstop-worker ompi4-sigterm-twice ompi4-sigterm ompi4-wdir-missing "
    "ompi5-app-of-other-mpi ompi5-daemon-silent ompi5-np-gt-slots-oversubscribe-env "
    "ompi5-np-gt-slots-oversubscribe ompi5-sigint ompi5-sigkill ompi5-sigterm-twice ompi5-sigterm "
    "ompi5-wdir-missing"
)
"""Files that show no failure, or nothing of one: healthy runs, hangs, plain stops."""
