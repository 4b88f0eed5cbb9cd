#!/bin/sh
# Called as /entrypoint.sh by manifests that name it, as mpi-operator's Intel and MPICH images have
# one that waits for the workers' names. The agent does the waiting.
set -eu

[ $# -gt 0 ] || { echo "entrypoint.sh: fatal: cannot start: no program was named" >&2; exit 2; }
exec "$@"
