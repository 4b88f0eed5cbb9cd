"""A `worker-call` of the tests: a shell script that speaks the worker's part of the protocol.

It is what a session of an ordinary sshd finds in MPI_AGENT_WORKER_CALL. One script serves every
address of that sshd, with a directory for each: what it heard there, and how it is to behave.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpi_agent.ssh.worker_protocol import RUN_MARK, render_line
from mpi_agent.ssh.worker_words import Line, Over

__all__ = ["FakeCall", "Way"]

_SCRIPT = """\
verb=$1
call=$2
set -- $SSH_CONNECTION
here=ROOT/$3
[ -d "$here" ] || mkdir -p "$here"
way=polite
lease=60
container=
[ -f "$here/way" ] && read -r way <"$here/way"
[ -f "$here/lease" ] && read -r lease <"$here/lease"
[ -s "$here/last_words" ] && container=c1
[ -n "$call" ] || read -r call
echo "$verb $call" >>"$here/heard"
if [ "$verb" = clean ]; then
  [ "$way" = slow ] && sleep 1
  cat "$here/cleaned"
  exit 0
fi
[ "$way" = noisy ] && echo "Welcome to node 7" && echo '{"kind":"of another version"}'
printf '{"kind":"watching","worker":"w","lease_s":%s,"container":"%s"}\\n' "$lease" "$container"
[ -f "$here/tells" ] && cat "$here/tells"
[ "$way" = nonsense ] && rm "$here/way" && cat <<'END'
{"kind":"out-of-memory","kills":0,"used_bytes":-1,"limit_bytes":1e400}
END
[ "$way" = breaks ] && rm "$here/way" && exit 1
grep -q farewell "$here/tells" 2>/dev/null && exit 0
while read -r line; do
  echo "$line" >>"$here/heard"
  case "$way $line" in
    silent*) ;;
    *\\"sweep\\"*)
      cat "$here/last_words"
      echo '{"kind":"swept","ended":0,"killed":0,"left":0,"segments":0}'
      ;;
    *alive*) echo '{"kind":"alive"}' ;;
    "mute "*over*) ;;
    *over*)
      echo '{"kind":"farewell"}'
      exit 0
      ;;
  esac
done
echo gone >>"$here/heard"
"""


class Way(enum.Enum):
    """How a fake behaves."""

    POLITE = "polite"
    NOISY = "noisy"
    """prints like start-up files do, and speaks of what nobody knows, before its first word"""
    BREAKS = "breaks"
    """ends without a word the first time"""
    NONSENSE = "nonsense"
    """tells of memory in numbers that cannot be, the first time"""
    SILENT = "silent"
    """answers nothing"""
    MUTE = "mute"
    """never says farewell"""
    SLOW = "slow"
    """takes a second to end what is left"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeCall:
    """The script and its directories, one for each address that is dialled."""

    root: Path

    @property
    def path(self) -> Path:
        """The script, written anew; nobody may execute it, as on a mount with noexec."""
        path = self.root / "worker-call"
        path.write_text(_SCRIPT.replace("ROOT", str(self.root)))
        path.chmod(0o600)
        return path

    def behaves(
        self,
        address: str,
        way: Way = Way.POLITE,
        *,
        lease_s: float = 60.0,
        tells: tuple[Line, ...] = (),
        last_words: tuple[Line, ...] = (),
    ) -> None:
        """Let the fake at an address behave in a way and tell something by itself.

        Args:
            tells: at once; it goes after a farewell, as a worker does that has nothing left.
            last_words: once it is told that the program has ended; without any it is an older
                agent, which does not know that line.
        """
        here = self._directory(address)
        (here / "way").write_text(f"{way.value}\n")
        (here / "lease").write_text(f"{lease_s:g}\n")
        (here / "tells").write_bytes(b"".join(map(render_line, tells)))
        (here / "last_words").write_bytes(b"".join(map(render_line, last_words)))

    def has_left(self, address: str, answer: Line) -> None:
        """Let there be processes of a former launch, and this answer to whoever asks to end them.

        The file that says so stands beside the script, so it is the same for all addresses.
        """
        (self._directory(address) / "cleaned").write_bytes(render_line(answer))
        (self.root / RUN_MARK).touch()

    def heard(self, address: str) -> list[str]:
        """Return what was said at an address: `watch` or `clean` for each call, then the kinds."""
        try:
            lines = (self._directory(address) / "heard").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [line.partition(" {")[0] if line[0] != "{" else _kind(line) for line in lines]

    def codes(self, address: str) -> list[int]:
        """Return the exit codes with which jobs were said to be over at an address."""
        lines = (self._directory(address) / "heard").read_text().splitlines()
        said = [json.loads(line) for line in lines if line[0] == "{"]
        return [line["exit_code"] for line in said if line["kind"] == Over.kind]

    def calls(self, address: str) -> list[dict[str, Any]]:
        """Return the calls that were made at an address."""
        lines = (self._directory(address) / "heard").read_text().splitlines()
        return [json.loads(line[line.index("{") :]) for line in lines if " {" in line]

    def _directory(self, address: str) -> Path:
        here = self.root / address
        here.mkdir(exist_ok=True)
        return here


def _kind(line: str) -> str:
    return str(json.loads(line)["kind"])
