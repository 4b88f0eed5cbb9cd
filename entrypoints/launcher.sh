#!/bin/sh
# Called as a launcher's command in place of mpirun: `launcher.sh mpirun -n 4 PROGRAM`.
# Finds the agent of this image and hands the whole line to it.
set -eu

agent=/opt/mpi-agent/bin/mpi-agent
[ -x "$agent" ] || { echo "launcher.sh: fatal: cannot run $agent: it is not there" >&2; exit 127; }
[ $# -gt 0 ] || { echo "launcher.sh: fatal: cannot launch: no program was named" >&2; exit 2; }
exec "$agent" launch -- "$@"
