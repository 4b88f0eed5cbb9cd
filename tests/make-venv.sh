#!/bin/sh
# Called by the Makefile: makes a virtual environment, for a Python of 3.11 or later.
set -eu
python=$1 venv=$2
fatal() { echo "make-venv.sh: fatal: $*" >&2; exit 1; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fatal "$python is older than 3.11; name another one with make PYTHON=..."
[ -x "$venv/bin/pip" ] && exit 0
"$python" -c 'import ensurepip' 2>/dev/null || {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
        fatal "$python cannot make virtual environments; install python3-venv"
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
}
exec "$python" -m venv "$venv"
