"""Pages say what the code does: links resolve, tables match, the README's commands exist."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from mpi_agent import errors
from mpi_agent.settings import ALL_SETTINGS, settings_of, variable_of

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "images/*.md", "examples/**/*.md", "benchmarks/*.md")
    for path in ROOT.glob(pattern)
)
COMMANDS = ("launch", "worker", "local", "ready")


def settings_page() -> str:
    """Return the text of docs/reference/settings.md as the table of settings demands it."""
    lines = [
        "# Settings",
        "",
        "A value comes from the flag, else from the variable, else from the default.",
        "Durations are written `90s`, `10m`, `1h30m`; a bare number is seconds.",
        "`plan` knows the settings of `launch`.",
    ]
    for command in COMMANDS:
        lines += ["", f"## `mpi-agent {command}`", "", "| flag | variable | default | meaning |"]
        lines += ["| --- | --- | --- | --- |"]
        for row in settings_of(command):
            value = f" {row.kind.value}" if row.kind.value else ""
            flag = f"{row.flag}{value}".replace("|", "\\|")
            default = f"`{row.default}`" if row.default else ""
            lines += [f"| `{flag}` | `{variable_of(row.name)}` | {default} | {row.help} |"]
    return "\n".join(lines) + "\n"


def test_the_settings_page_is_the_table_of_the_code() -> None:
    """`python -m tests.docs.test_reference_pages` writes it anew."""
    assert (ROOT / "docs/reference/settings.md").read_text() == settings_page()


def test_the_exit_code_page_lists_every_error_with_its_code() -> None:
    """And no other."""
    text = (ROOT / "docs/reference/exit-codes.md").read_text()
    listed = {
        (name, int(code)) for code, name in re.findall(r"^\| (\d+) \| `(\w+)` \|", text, re.M)
    }
    raised = {
        (name, kind.exit_code)
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.MpiAgentError)
        and "exit_code" in vars(kind)
        and name not in {"MpiAgentError", "WorkerSetupError"}
    } | {("StoppedError", code) for code in (129, 130, 143)}

    assert listed == raised


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    """Relative ones, in every page."""
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_make_targets_that_the_readme_names_exist() -> None:
    """A stranger's first command must work."""
    makefile = (ROOT / "Makefile").read_text()

    for target in re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.M):
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_every_setting_belongs_to_a_command_that_exists() -> None:
    """A row without a command would never be read."""
    known = {path.stem for path in (ROOT / "mpi_agent/cli").glob("*.py")}

    assert {command for row in ALL_SETTINGS for command in row.commands} <= known


if __name__ == "__main__":
    (ROOT / "docs/reference/settings.md").write_text(settings_page())
