#!/bin/sh
# Called as a worker's command in place of sshd: `worker.sh [OPTIONS] [-- SSHD_ARGUMENTS...]`.
# Finds the agent of this image and hands the whole line to it.
set -eu

agent=/opt/mpi-agent/bin/mpi-agent
[ -x "$agent" ] || { echo "worker.sh: fatal: cannot run $agent: it is not there" >&2; exit 127; }
exec "$agent" worker "$@"
