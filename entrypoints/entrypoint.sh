#!/bin/sh
# Called as /entrypoint.sh by manifests that name it, as mpi-operator's Intel and MPICH images have
# one that waits for the workers' names. The agent does the waiting.
set -eu

exec "$@"
