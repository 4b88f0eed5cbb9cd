"""The private directory: files appear whole, or the error says why not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mpi_agent.errors import StateDirectoryError
from mpi_agent.state import StateDirectory, open_state_directory


def a_removed_directory(root: Path) -> Path:
    """Return a directory that is not there any more."""
    return root / "gone"


def a_file(root: Path) -> Path:
    """Return a file that stands where a directory should."""
    path = root / "file"
    path.touch()
    return path


def a_place_where_not_even_root_writes(_: Path) -> Path:
    """Return a directory of the kernel."""
    return Path("/proc/self")


@pytest.mark.parametrize(
    "unwritable", [a_removed_directory, a_file, a_place_where_not_even_root_writes]
)
def test_a_file_that_cannot_be_written_is_an_error_of_the_private_directory(
    unwritable: Callable[[Path], Path], tmp_path: Path
) -> None:
    """With its path, the system's reason, and a way out."""
    state = StateDirectory(unwritable(tmp_path))

    with pytest.raises(StateDirectoryError, match="cannot write") as caught:
        state.write("hostfile", "w-0 slots=1\n")

    assert caught.value.exit_code == 73
    assert str(state.file("hostfile")) in caught.value.summary
    assert "--state-dir" in str(caught.value.hint)


def test_a_file_has_its_mode_and_its_whole_content_at_once(tmp_path: Path) -> None:
    """Nothing is left beside it."""
    state = open_state_directory(str(tmp_path / "state"))
    state.write("job_key", "old")

    path = state.write("job_key", b"new", mode=0o400)

    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o400
    assert list(state.path.iterdir()) == [path]


@pytest.fixture
def open_to_readers(tmp_path: Path) -> Path:
    """Give a directory as `mkdir` makes it."""
    path = tmp_path / "state"
    path.mkdir()
    path.chmod(0o755)
    return path


def test_an_empty_directory_that_others_may_look_into_is_closed_to_them(
    open_to_readers: Path,
) -> None:
    """As made by an image for nothing else."""
    state = open_state_directory(str(open_to_readers))

    assert state.path.stat().st_mode & 0o7777 == 0o700


def test_a_directory_with_something_in_it_keeps_its_mode(open_to_readers: Path) -> None:
    """It may be a home, or shared; the files that we keep there are closed themselves."""
    (open_to_readers / "results.csv").touch()

    state = open_state_directory(str(open_to_readers))
    path = state.write("job_key", "secret")

    assert state.path.stat().st_mode & 0o7777 == 0o755
    assert path.stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_directory_in_which_others_may_write_is_refused(open_to_readers: Path, mode: int) -> None:
    """Even when it is empty: whatever they have planted there meanwhile is not seen."""
    open_to_readers.chmod(mode)

    with pytest.raises(StateDirectoryError, match="is open to others"):
        open_state_directory(str(open_to_readers))
