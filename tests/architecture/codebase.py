"""What the architecture tests look at: the product's files, parsed once."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("common", "cloud", "edge", "lab")


@dataclass(frozen=True)
class Source:
    """One Python file. `name` is its path below the root, such as `common/wire.py`."""

    name: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def is_program(self) -> bool:
        return Path(self.name).name == "__main__.py"


@cache
def product() -> tuple[Source, ...]:
    return _sources(PACKAGES)


@cache
def everything() -> tuple[Source, ...]:
    return _sources((*PACKAGES, "tests", "bench"))


def _sources(folders: tuple[str, ...]) -> tuple[Source, ...]:
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    return tuple(Source(str(path.relative_to(ROOT)), text, ast.parse(text)) for path, text in texts.items())


def dotted(node: ast.expr) -> str:
    """`a.b.c` as text; empty for anything that is no plain name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


def uses(tree: ast.AST) -> set[str]:
    """Every dotted name that is read, called or imported, imports under their full names."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute | ast.Name):
            found.add(dotted(node))
    return found


def names(tree: ast.AST) -> set[str]:
    """Every name that the code gives: of variables, arguments, attributes, functions and classes."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
    return found
