"""What somebody planted where we keep files is not followed: in a shared /tmp anybody can."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mpi_agent.errors import StateDirectoryError
from mpi_agent.state import StateDirectory, open_state_directory


@pytest.fixture
def bait(tmp_path: Path) -> Path:
    """Give a file of somebody that must stay as it is."""
    path = tmp_path / "bait"
    path.write_text("untouched")
    path.chmod(0o644)
    return path


def test_a_link_at_the_directorys_place_is_refused(tmp_path: Path) -> None:
    """Even one that leads to a directory of ours."""
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "state").symlink_to("elsewhere")

    with pytest.raises(StateDirectoryError, match="symbolic link"):
        open_state_directory(str(tmp_path / "state"))

    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_to_nowhere_is_refused_and_its_target_not_made(tmp_path: Path) -> None:
    """Making the directory must not make what the link names."""
    (tmp_path / "state").symlink_to(tmp_path / "nowhere")

    with pytest.raises(StateDirectoryError):
        open_state_directory(str(tmp_path / "state"))

    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777])
def test_a_directory_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    """They could put their files among ours."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(mode)

    with pytest.raises(StateDirectoryError, match="open to others"):
        open_state_directory(str(tmp_path / "state"))


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """He could read our keys."""
    if os.getuid() != 0:
        pytest.skip("only root can make a directory of somebody else")
    (tmp_path / "state").mkdir(mode=0o700)
    os.chown(tmp_path / "state", 54321, 54321)

    with pytest.raises(StateDirectoryError, match="belongs to uid 54321"):
        open_state_directory(str(tmp_path / "state"))


def test_the_directory_is_made_for_us_alone(tmp_path: Path) -> None:
    """Whatever the umask says."""
    before = os.umask(0)
    try:
        state = open_state_directory(str(tmp_path / "state"))
        state.write("key", "secret")
    finally:
        os.umask(before)

    assert state.path.stat().st_mode & 0o7777 == 0o700
    assert state.file("key").stat().st_mode & 0o7777 == 0o600


def test_a_link_at_a_files_place_is_replaced(tmp_path: Path, bait: Path) -> None:
    """As at that of a ready file in a shared directory."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "ready").symlink_to(bait)

    StateDirectory(shared).write("ready", "ready\n", mode=0o644)

    assert bait.read_text() == "untouched"
    assert not (shared / "ready").is_symlink()
    assert (shared / "ready").read_text() == "ready\n"


def test_links_at_names_that_could_be_guessed_do_no_harm(tmp_path: Path, bait: Path) -> None:
    """The file beside the final one has a name of chance."""
    guessed = [f".ready.{number}" for number in (os.getpid(), 1, 7)]
    for name in guessed:
        (tmp_path / name).symlink_to(bait)

    StateDirectory(tmp_path).write("ready", "ready\n")

    assert bait.read_text() == "untouched"
    assert all((tmp_path / name).is_symlink() for name in guessed)


def test_nothing_is_left_beside_a_file_that_cannot_be_placed(tmp_path: Path) -> None:
    """A full disk would be fuller with each try."""
    (tmp_path / "ready").mkdir()

    with pytest.raises(StateDirectoryError):
        StateDirectory(tmp_path).write("ready", "x")

    assert [path.name for path in tmp_path.iterdir()] == ["ready"]
