"""The catalogue: every row is whole, has a recorded output, and does not see it everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mpi_agent.explain.matcher import find_symptoms
from mpi_agent.explain.symptoms import ALL_ROWS, ALL_SYMPTOMS, symptom_of
from mpi_agent.explain.symptoms.agent import ROWS as KNOWN_BY_THE_AGENT
from mpi_agent.explain.symptoms.phrases import compile_phrases, fill
from mpi_agent.job.symptoms import Finding, root_of
from tests.unit.explain.corpus_roots import NOTHING_KNOWN, ROOTS
from tests.unit.explain.logs import an_output
from tests.unit.explain.near_misses import NEAR_MISSES, OVERCOME

CORPUS = Path(__file__).parents[2] / "corpus"
SAID = tuple(row for row in ALL_ROWS if row not in KNOWN_BY_THE_AGENT)
ROOT_OF = {name: symptom_id for symptom_id, names in ROOTS.items() for name in names.split()}


def findings_in(name: str) -> tuple[Finding, ...]:
    """Return what a file of the corpus shows."""
    text = (CORPUS / f"{name}.txt").read_text("utf-8", "surrogateescape")
    return find_symptoms(an_output(text))


SHOWN = {path.stem: findings_in(path.stem) for path in sorted(CORPUS.glob("*.txt"))}


def test_the_catalogue_holds_what_was_asked_for() -> None:
    """At least forty were; more than a hundred are what the changelog promises."""
    assert len(ALL_SYMPTOMS) > 100


def test_ids_are_words_with_hyphens_and_lead_to_their_symptom() -> None:
    """They stand in messages and in people's scripts."""
    for symptom in ALL_SYMPTOMS:
        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)+", symptom.id), symptom.id
        assert symptom_of(symptom.id) is symptom


def test_a_symptom_says_cause_remedy_and_source() -> None:
    """Each without an end, so that it fits into a sentence; a source tells a version or a date."""
    for row in ALL_ROWS:
        symptom = row.symptom
        for text in (symptom.cause, symptom.remedy, symptom.source, *symptom.stacks):
            assert text, symptom.id
            assert text == text.strip(" .;"), symptom.id
            assert "\n" not in text, symptom.id
        assert re.search(r"\d", symptom.source) or row in KNOWN_BY_THE_AGENT, symptom.id


def test_a_remedy_has_no_names_to_fill_in() -> None:
    """It is told as it stands in the catalogue."""
    assert not [symptom.id for symptom in ALL_SYMPTOMS if "{" in symptom.remedy]


def test_every_symptom_has_a_recorded_output() -> None:
    """What only the agent knows has none."""
    found = {finding.symptom.id for findings in SHOWN.values() for finding in findings}

    assert found == {row.symptom.id for row in SAID}


def test_every_name_in_a_cause_is_filled_in() -> None:
    """In every recorded output."""
    for findings in SHOWN.values():
        for finding in findings:
            assert not re.search(r"[{}]|\?(?!\w)", finding.cause), finding.cause


def test_a_recorded_output_shows_its_root_first() -> None:
    """Read by people; the launchers' own long texts come after what caused them."""
    roots = {name: findings[0].symptom.id for name, findings in SHOWN.items() if findings}

    assert roots == ROOT_OF


def test_a_recorded_output_without_a_failure_shows_nothing() -> None:
    """A healthy run, or one that hung and said nothing; a new file wants a line in this table."""
    assert {name for name, findings in SHOWN.items() if not findings} == set(NOTHING_KNOWN.split())


def test_a_near_miss_is_not_taken_for_the_symptom() -> None:
    """It has words of it, and is something else."""
    for row in SAID:
        near = NEAR_MISSES[row.symptom.id]
        words = set(re.findall(r"\w{4,}", " ".join(row.phrases)))

        assert words & set(re.findall(r"\w{4,}", near)), near
        assert row.symptom not in [finding.symptom for finding in find_symptoms(an_output(near))]


def test_near_misses_are_of_symptoms_that_exist() -> None:
    """An id that is gone would test nothing."""
    assert set(NEAR_MISSES) == {row.symptom.id for row in SAID}


STEPS = "\n".join(f"step {number} loss 0.1234" for number in range(500))
CRASHED = "mpirun noticed that process rank 3 with PID 7 on node w1 exited on signal 11 (Segm)."


@pytest.mark.parametrize("symptom_id", OVERCOME)
@pytest.mark.parametrize("tag", ["", "[1,0]<stderr>:", "2026-11-30T12:00:00Z "])
def test_what_a_program_overcame_is_not_why_it_ended(symptom_id: str, tag: str) -> None:
    """It is found, and the crash much later is the root; with no crash there is no root."""
    healthy = "\n".join(tag + line for line in f"{OVERCOME[symptom_id]}\n{STEPS}".split("\n"))

    alone = find_symptoms(an_output(healthy))
    crashed = find_symptoms(an_output(f"{healthy}\n{CRASHED}"))

    assert [finding.symptom.id for finding in alone] == [symptom_id]
    assert root_of(alone) is None
    assert [finding.symptom.id for finding in crashed] == ["rank-segfault", symptom_id]
    assert [finding.is_past for finding in crashed] == [False, True]


@pytest.mark.parametrize("symptom_id", OVERCOME)
def test_what_a_program_ended_of_is_the_root_though_it_had_overcome_it_before(
    symptom_id: str,
) -> None:
    """The line that counts is the one near the end."""
    text = f"{OVERCOME[symptom_id]}\n{STEPS}\n{OVERCOME[symptom_id]}\n{CRASHED}"

    finding = find_symptoms(an_output(text))[0]

    assert (finding.symptom.id, finding.line_number) == (symptom_id, 502)


def test_a_pattern_has_the_literals_that_are_looked_for_first() -> None:
    """Without one of them it would never be tried."""
    for row in ALL_ROWS:
        for phrase, literal in zip(row.phrases, row.literals, strict=True):
            assert literal in phrase


def test_a_phrase_without_anything_to_look_for_is_refused() -> None:
    """It would be searched for in every line."""
    with pytest.raises(ValueError, match="nothing to look for"):
        compile_phrases(("{host} is {what}",))


def test_a_word_at_the_end_of_a_phrase_is_taken_whole() -> None:
    """With its dots and colons, and without the full stop behind it."""
    pattern = compile_phrases(("cannot reach {host}",))

    match = pattern.search("cannot reach pi-worker-0.pi:22. Giving up")

    assert match is not None
    assert fill("{host}", match) == "pi-worker-0.pi:22"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("rank 3 on w1 is gone", 'rank 3[ on "w1"] is gone'),
        ("a rank is gone", "a rank is gone"),
    ],
)
def test_what_is_not_told_is_left_out_of_a_cause(text: str, cause: str) -> None:
    """Or said in other words."""
    pattern = compile_phrases(("rank {rank} on {host} is gone", "a rank is gone"))

    match = pattern.search(text)

    assert match is not None
    filled = fill('[rank {rank}|a rank][ on "{host}"] is gone', match)
    assert filled == cause.replace("[", "").replace("]", "")


def test_every_recorded_output_says_what_it_is_and_where_from() -> None:
    """Its header, and for a public thread the README too."""
    readme = (CORPUS / "README.md").read_text()
    for path in CORPUS.glob("*.txt"):
        header = path.read_text("utf-8", "surrogateescape").split("\n", 3)[:3]
        keys = {line.split(":")[0] for line in header if line.startswith("# ")}

        assert keys & {"# launcher", "# software", "# case"}, path.name
        assert "# source" not in keys or f"`{path.name}`" in readme, path.name
