"""The project's own papers agree with its code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from codebase import PACKAGES, ROOT

from cloud.algorithms import ALGORITHMS as CLOUD
from common.experiment import Data
from edge.algorithms import ALGORITHMS as EDGE

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_both_halves_know_the_same_algorithms() -> None:
    assert set(CLOUD) == set(EDGE)


@pytest.mark.parametrize("name", sorted(CLOUD))
def test_an_algorithm_has_a_page_and_a_line_in_the_readme(name: str) -> None:
    page = ROOT / "docs" / "algorithms" / f"{name}.md"
    assert page.is_file()
    assert f"docs/algorithms/{name}.md" in README


def test_the_readme_begins_with_exactly_two_commands() -> None:
    block = re.search(r"```\w*\n(.*?)```", README, re.DOTALL)
    assert block
    commands = [line.split("#")[0].strip() for line in block[1].splitlines() if line.strip()]
    assert commands == ["make demo", "make test"]


def test_every_make_target_that_the_papers_name_exists() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    papers = [README, *(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))]
    named = {name for text in papers for name in re.findall(r"`make ([a-z][a-z-]*)", text)}
    assert named <= targets


def test_links_between_the_papers_lead_somewhere() -> None:
    broken = []
    for paper in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", paper.read_text(encoding="utf-8")):
            if not (paper.parent / target).exists():
                broken.append(f"{paper.relative_to(ROOT)}: {target}")
    assert broken == []


def test_every_package_is_installed() -> None:
    listed = set(PROJECT["tool"]["setuptools"]["packages"])
    there = {
        ".".join(path.parent.relative_to(ROOT).parts) for top in PACKAGES for path in (ROOT / top).rglob("__init__.py")
    }
    assert listed == there


def test_every_data_file_is_installed() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]
    for top in PACKAGES:
        for path in (ROOT / top).rglob("*"):
            if path.is_file() and path.suffix not in {".py", ".pyc"}:
                package = ".".join(path.parent.relative_to(ROOT).parts)
                assert any(path.match(pattern) for pattern in patterns.get(package, [])), path


def test_every_test_is_collected_without_broker_and_engine() -> None:
    """A bare machine collects all tests before it has what some of them need."""
    nowhere = {"DOCKER_HOST": "unix:///nonexistent.sock", "PATH": "/nonexistent"}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "broker or docker"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **nowhere}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_images_differ_only_below_the_line() -> None:
    """So that edges and cloud share their upper layers."""
    cloud, edge = (_shared_lines(ROOT / f"Dockerfile.{role}") for role in ("cloud", "edge"))
    assert cloud == edge
    assert len(cloud) > 10


def _shared_lines(path: Path) -> list[str]:
    above, line, _ = path.read_text(encoding="utf-8").partition("# ---- from here on")
    assert line
    return [text for text in above.splitlines() if not text.startswith("#")]


def test_the_readmes_own_model_works() -> None:
    block = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert block
    space: dict[str, Any] = {}
    exec(block[1], space)
    model = space["build"]((1, 8, 8), 10)
    flat = model.init(np.random.default_rng(1)).flat
    images = model.prepare(np.full((3, 1, 8, 8), 5, np.uint8), 16.0)
    total = model.clipped_sum(flat, images, np.array([1, 2, 3]), 0.01)
    assert 0 < np.linalg.norm(total) <= 0.03 * 1.0001


def test_the_readmes_own_data_are_read_as_the_file_says() -> None:
    block = re.search(r"```yaml\n(data: .*?)```", README, re.DOTALL)
    assert block
    assert Data.model_validate(yaml.safe_load(block[1])["data"]).name == "npz"


def test_what_commands_write_by_default_is_nothing_to_commit() -> None:
    """Some of it holds private keys."""
    sources = "".join(path.read_text() for path in (ROOT / "lab").rglob("*.py"))
    folders = set(re.findall(r'Path\("([a-z]+)"\)', sources))
    assert folders >= {"audits", "runs", "stack"}
    assert {f"/{name}/" for name in folders} <= set((ROOT / ".gitignore").read_text().splitlines())
