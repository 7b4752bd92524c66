"""A file that wants to grow past its cap has two subjects."""

from __future__ import annotations

import ast

import pytest
from codebase import ROOT, Source, everything, product

LONGEST_FILE = 300
LONGEST_FUNCTION = 60
CAPS = {"Makefile": 60, "docker-compose.yml": 95, "Dockerfile.cloud": 40, "Dockerfile.edge": 40, "pyproject.toml": 300}


@pytest.mark.parametrize("source", everything(), ids=lambda source: source.name)
def test_a_file_has_one_subject(source: Source) -> None:
    assert source.lines <= LONGEST_FILE


@pytest.mark.parametrize("source", product(), ids=lambda source: source.name)
def test_a_function_fits_a_screen(source: Source) -> None:
    functions = [node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {node.name: (node.end_lineno or node.lineno) - node.lineno + 1 for node in functions}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


@pytest.mark.parametrize(("name", "cap"), CAPS.items())
def test_the_project_files_stay_small(name: str, cap: int) -> None:
    assert len((ROOT / name).read_text(encoding="utf-8").splitlines()) <= cap
