"""The name of one run: whose it is, and which attempt.

Workers find a run's processes by it, also those that have no agent and know nothing else: so it
tells whether a run belongs to the launcher that asks, to a former life of it, or to somebody else.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

__all__ = ["RunId"]

_POD_SUFFIX = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\Z")
"""What a Job's controller puts at the end of the names of its pods. It has no vowels and no digits
that look like letters, so it is hardly ever taken for it what somebody called a machine.

Source: Kubernetes 1.34, apimachinery, pkg/util/rand, `alphanums`, and job_controller's pods by
generateName.
"""
_FORM = re.compile(r"([0-9a-f]{8})\.([0-9a-f]{8})\.([0-9a-f]{8})\.([0-9]{1,6})")
_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RunId:
    """Four parts, written with dots between: lower-case hexadecimal, and the attempt's number.

    Attributes:
        job: the same for every launcher pod of one Job.
        container: of the launcher; another one after a restart.
        launch: random, the same for all attempts of one launch.
        attempt: from 1.
    """

    job: str
    container: str
    launch: str
    attempt: int

    @classmethod
    def of_launcher(cls, *, name: str, container: str, launch: str, attempt: int = 1) -> RunId:
        """Return the id of a launcher's attempt.

        Args:
            name: of the launcher's host. What a Job's controller puts at the end of a pod's name is
                left out: the next pod of the Job has another end.
            container: see `container.container_identity`.
            launch: at least eight hexadecimal digits; the first eight are used.
        """
        label = _POD_SUFFIX.sub("", name.split(".")[0])
        return cls(
            job=_digest(label),
            container=_digest(container),
            launch=launch[:_DIGITS],
            attempt=attempt,
        )

    @classmethod
    def parse(cls, text: str) -> RunId | None:
        """Return the id that a text is, None for one of another form."""
        match = _FORM.fullmatch(text)
        if match is None:
            return None
        job, container, launch, attempt = match.groups()
        return cls(job=job, container=container, launch=launch, attempt=int(attempt))

    def __str__(self) -> str:
        return f"{self.job}.{self.container}.{self.launch}.{self.attempt}"

    @property
    def launcher(self) -> str:
        """The container that launches, and its job: what all its runs have in common."""
        return f"{self.job}.{self.container}"

    def is_former_of(self, other: RunId) -> bool:
        """Return whether this run cannot have a launcher any more if the other one begins.

        That is a run of the same job from another container, or an earlier attempt of the launch.
        Two launches at a time from one container are legal.
        """
        if self.job != other.job:
            return False
        if self.container != other.container:
            return True
        return self.launch == other.launch and self.attempt < other.attempt


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:_DIGITS]
