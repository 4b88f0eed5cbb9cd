"""The page of exit codes is the table of the code, and the policies name codes that are in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from mpi_agent.errors import MpiAgentError
from mpi_agent.explain.exit_codes import EXIT_CODES, Retry, codes_with
from mpi_agent.job.endings import Verdict
from mpi_agent.settings import settings_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/exit-codes.md"
HOW_TO = ROOT / "docs/how-to/exit-code-policies.md"
POLICIES = ROOT / "examples/policies"

TABLE_HEAD = (
    "| code | error | when | verdict | does a retry help? |",
    "| --- | --- | --- | --- | --- |",
)


def exit_code_rows() -> list[str]:
    """Return the rows of the page's table."""
    return [
        f"| {row.code} | {f'`{row.error.__name__}`' if row.error else ''} | {row.when} "
        f"| {row.verdict.value if row.verdict else ''} | {row.retry.value} |"
        for row in EXIT_CODES
    ]


def test_the_page_has_the_table_of_the_code() -> None:
    """`python -m tests.docs.test_policies` writes it anew."""
    text = PAGE.read_text()
    rows = "\n".join((*TABLE_HEAD, *exit_code_rows()))

    assert f"\n{rows}\n" in text


def test_every_verdict_has_a_code_in_the_table_but_that_of_programs() -> None:
    """The program's own code is any number."""
    assert {row.verdict for row in EXIT_CODES if row.verdict} == set(Verdict) - {
        Verdict.PROGRAM_FAILED
    }


def test_every_error_of_the_table_has_the_code_of_its_class() -> None:
    """But a stop, whose code is 128 + the signal."""
    for row in EXIT_CODES:
        if row.error is not None and row.verdict is not Verdict.STOPPED:
            assert row.code == row.error.exit_code, row
        assert row.error is None or issubclass(row.error, MpiAgentError)


def test_codes_tell_by_themselves_whether_a_retry_helps() -> None:
    """Below 128 it does not, from 200 to 209 it may."""
    assert all(code < 128 or code == 141 for code in codes_with(Retry.NO))
    assert all(200 <= code <= 209 or code in (129, 130, 143) for code in codes_with(Retry.MAY))


NOT_AGAIN = codes_with(Retry.NO) - {141}
AGAIN = codes_with(Retry.MAY) - {129, 130, 143}


def manifest(name: str) -> Any:
    """Return a policy's manifest."""
    return yaml.safe_load((POLICIES / f"{name}.yaml").read_text())


def exit_code_rules(job: Mapping[str, Any]) -> list[tuple[str, str, frozenset[int]]]:
    """Return action, operator and codes of a Job's rules on exit codes."""
    return [
        (rule["action"], rule["onExitCodes"]["operator"], frozenset(rule["onExitCodes"]["values"]))
        for rule in job["podFailurePolicy"]["rules"]
        if "onExitCodes" in rule
    ]


def assert_fit_for_a_job(job: Mapping[str, Any]) -> None:
    """Assert what the Job's own checks ask of a podFailurePolicy.

    Source: Kubernetes documentation, "Pod failure policy", and the API reference of Job,
    read 2026-11-30: restartPolicy Never; a container that is there; codes in ascending order, each
    once, no 0 for In.
    """
    pod = job["template"]["spec"]
    names = {container["name"] for container in pod["containers"]}
    assert pod["restartPolicy"] == "Never"
    for rule in job["podFailurePolicy"]["rules"]:
        assert rule["action"] in {"FailJob", "Ignore", "Count"}
        assert ("onExitCodes" in rule) != ("onPodConditions" in rule)
        if asked := rule.get("onExitCodes"):
            assert asked["containerName"] in names
            assert asked["values"] == sorted(set(asked["values"]))
            assert asked["operator"] == "NotIn" or 0 not in asked["values"]


def test_the_job_fails_at_once_where_a_retry_would_end_the_same_way() -> None:
    """And counts what may end better."""
    job = manifest("job")["spec"]
    rules = exit_code_rules(job)

    assert_fit_for_a_job(job)
    assert rules[0] == ("FailJob", "In", NOT_AGAIN - {0})
    assert rules[1] == ("Count", "In", AGAIN)
    assert rules[2] == ("FailJob", "NotIn", frozenset({129, 130, 143}))
    assert job["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["type"] == "DisruptionTarget"


def test_the_jobset_tells_the_two_apart_by_the_index_of_the_jobs_rule() -> None:
    """The first fails it, the second begins it anew, and the rest is the program's."""
    jobset = manifest("jobset")["spec"]
    launcher = jobset["replicatedJobs"][0]
    job = launcher["template"]["spec"]
    rules = {rule["name"]: rule for rule in jobset["failurePolicy"]["rules"]}

    def index_of(name: str) -> int:
        (pattern,) = rules[name]["onJobFailureMessagePatterns"]
        message = f"matching FailJob rule at index {re.sub('[^0-9]', '', pattern)}"
        assert re.search(pattern, message)
        assert not re.search(pattern, f"{message}1")
        return int(message.rpartition(" ")[2])

    assert_fit_for_a_job(job)
    assert job["backoffLimit"] == 0
    same, may = index_of("SameAgain"), index_of("MayHelp")
    assert exit_code_rules(job)[same][2] == NOT_AGAIN - {0}
    assert exit_code_rules(job)[may][2] == AGAIN | {129, 130, 143}
    assert rules["SameAgain"]["action"] == "FailJobSet"
    assert rules["MayHelp"]["action"] == "RestartJobSet"
    assert all(rule["targetReplicatedJobs"] == [launcher["name"]] for rule in rules.values())
    assert jobset["successPolicy"]["targetReplicatedJobs"] == [launcher["name"]]


def test_the_volcano_job_is_aborted_or_begun_anew() -> None:
    """Each code once, and never together with an event.

    Source: volcano, pkg/webhooks/admission/jobs, 2026-08: "0 is not a valid error code",
    "duplicate exitCode".
    """
    master = manifest("volcano")["spec"]["tasks"][0]
    actions = {p["exitCode"]: p["action"] for p in master["policies"] if "exitCode" in p}

    assert len(actions) == sum("exitCode" in policy for policy in master["policies"])
    assert all(("exitCode" in policy) != ("event" in policy) for policy in master["policies"])
    assert {code for code, action in actions.items() if action == "AbortJob"} == NOT_AGAIN - {0}
    assert {code for code, action in actions.items() if action == "RestartJob"} == AGAIN
    assert {"event": "TaskCompleted", "action": "CompleteJob"} in master["policies"]


def test_the_argo_step_is_tried_again_where_that_may_help() -> None:
    """By the codes in its expression."""
    (template,) = manifest("argo")["spec"]["templates"]
    strategy = template["retryStrategy"]
    (listed,) = re.findall(
        r"asInt\(lastRetry\.exitCode\) in \[([0-9, ]+)\]", strategy["expression"]
    )

    assert {int(code) for code in listed.split(",")} == AGAIN
    assert isinstance(strategy["limit"], str)


def test_the_mpijob_leaves_restarts_to_the_agent() -> None:
    """The operator knows no rules on exit codes, and with OnFailure its logs are lost."""
    replicas = manifest("mpijob")["spec"]["mpiReplicaSpecs"]
    (launcher,) = replicas["Launcher"]["template"]["spec"]["containers"]

    assert replicas["Launcher"]["restartPolicy"] == "Never"
    assert "--max-restarts" in launcher["command"]


@pytest.mark.parametrize("path", sorted(POLICIES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_launchers_of_the_policies_get_options_that_they_know(path: Path) -> None:
    """And the page shows each of them."""
    known = {row.flag for row in settings_of("launch")} | {"--"}
    for command in re.findall(r"command: \[mpi-agent, launch, (.*)\]", path.read_text()):
        assert {word for word in command.split(", ") if word.startswith("-")} <= known

    assert f"(../../examples/policies/{path.name})" in HOW_TO.read_text()


if __name__ == "__main__":
    text = PAGE.read_text()
    head, _, rest = text.partition(TABLE_HEAD[0])
    tail = rest[rest.index("\n\n") :]
    PAGE.write_text(head + "\n".join((*TABLE_HEAD, *exit_code_rows())) + tail)
