#!/bin/sh
# Called by the Makefile: makes a virtual environment for each MPI that tests/stacks.py tells of.
# The wheels of Open MPI, MPICH and Intel MPI each bring an mpirun, so each needs one for itself.
# `debian` has mpi4py alone, for the MPIs that Debian's packages bring.
set -eu
python=$1 root=$2
fatal() { echo "make-stacks.sh: fatal: $*" >&2; exit 1; }

make_stack() {
    directory=$root/$1
    shift
    [ ! -e "$directory/.made" ] || return 0
    echo "making $directory"
    "$python" -m venv --clear --without-pip "$directory"
    "$python" -m pip --python "$directory/bin/python" install --quiet "$@" "mpi4py>=4.1,<5" ||
        fatal "$directory needs $* and mpi4py from a package index, which did not give them"
    touch "$directory/.made"
}

make_stack mpich "mpich>=5,<6"
make_stack impi "impi-rt>=2021.15"
make_stack debian

# mpi4py is linked with libmpi.so.12, by which name Debian does not know its MPICH.
mkdir -p "$root/debian/mpich"
ln -sf /usr/lib/*-linux-gnu/libmpich.so.12 "$root/debian/mpich/libmpi.so.12"
cat >"$root/debian/bin/python-mpich" <<'END'
#!/bin/sh
here=$(dirname "$0")
export LD_LIBRARY_PATH="$here/../mpich${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$here/python" "$@"
END
cat >"$root/debian/bin/python-openmpi" <<'END'
#!/bin/sh
export MPI4PY_LIBMPI=libmpi.so.40
exec "$(dirname "$0")/python" "$@"
END
chmod +x "$root/debian/bin/python-mpich" "$root/debian/bin/python-openmpi"
