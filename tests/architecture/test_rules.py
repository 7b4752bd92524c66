"""What no file of the product may do, whatever it is for. Each rule is also shown a file that breaks it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

import pytest
from codebase import Source, everything, names, product, uses

PICKLES = {"pickle", "cPickle", "dill", "joblib", "marshal", "shelve", "torch.load", "torch.save"}
EVALUATIONS = {"eval", "exec", "compile", "__import__", "os.system", "yaml.load", "yaml.unsafe_load"}
ENVIRONMENT = re.compile(r"os\.(environ|environb|getenv|putenv|unsetenv)")
SEEDED = {"default_rng", "Generator", "SeedSequence", "SFC64", "BitGenerator"}
SOURCES = ("common/seeds.py", "common/secrecy.py")
"""Where generators are made: from a seed, or from the operating system."""
ROOT_NAMES = re.compile(r"(np|numpy|torch)\.random\.(\w+)")
SYMBOLS = {"delta", "sigma", "eta", "tau", "rho", "theta", "lam", "lambd", "lambda_", "kap"}
EMPTY_WORDS = ("Manager", "Helper", "Util", "Utils", "Base", "Handler", "Wrapper")

Rule = Callable[[Source], Iterator[str]]


def no_pickles(source: Source) -> Iterator[str]:
    yield from (name for name in uses(source.tree) if name in PICKLES or name.split(".")[0] in PICKLES)
    allowed = [node for node in ast.walk(source.tree) if isinstance(node, ast.keyword) and node.arg == "allow_pickle"]
    yield from ("allow_pickle" for word in allowed if ast.unparse(word.value) != "False")


def no_evaluation(source: Source) -> Iterator[str]:
    yield from EVALUATIONS & uses(source.tree)


def no_environment(source: Source) -> Iterator[str]:
    if not source.is_program:
        yield from (name for name in uses(source.tree) if ENVIRONMENT.match(name))


def no_global_randomness(source: Source) -> Iterator[str]:
    for name in uses(source.tree):
        found = ROOT_NAMES.match(name)
        if name.split(".")[0] == "random" or (found and found[2] not in SEEDED) or name.endswith("manual_seed"):
            yield name


def no_generator_of_its_own(source: Source) -> Iterator[str]:
    made = SEEDED - {"Generator", "BitGenerator"}
    for name in uses(source.tree) if source.name not in SOURCES else ():
        found = ROOT_NAMES.match(name)
        if name.split(".")[0] == "randomgen" or (found and found[2] in made):
            yield name


def no_symbols(source: Source) -> Iterator[str]:
    yield from SYMBOLS & names(source.tree)


def no_empty_words(source: Source) -> Iterator[str]:
    classes = [node.name for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)]
    yield from (name for name in classes if name.endswith(EMPTY_WORDS) or name.startswith("Base"))


def no_global_statement(source: Source) -> Iterator[str]:
    yield from (", ".join(node.names) for node in ast.walk(source.tree) if isinstance(node, ast.Global))


RULES: dict[Rule, tuple[str, ...]] = {
    no_pickles: ("import pickle", "torch.load(path)", "np.load(path, allow_pickle=True)", "from marshal import loads"),
    no_evaluation: ("eval(text)", "exec(text)", "yaml.load(text)"),
    no_environment: ("import os\nos.environ['HOME']", "import os\nos.getenv('HOME')"),
    no_global_randomness: ("import random", "np.random.normal()", "np.random.seed(1)", "torch.manual_seed(1)"),
    no_generator_of_its_own: ("np.random.default_rng(1)", "np.random.SFC64(1)", "from randomgen import ChaCha"),
    no_symbols: ("delta = 1", "def f(sigma): ...", "self.tau = 2"),
    no_empty_words: ("class RunManager: ...", "class BaseNode: ..."),
    no_global_statement: ("def f():\n    global counter",),
}


@pytest.mark.parametrize("source", product(), ids=lambda source: source.name)
def test_the_product_keeps_every_rule(source: Source) -> None:
    broken = {rule.__name__: sorted(found) for rule in RULES if (found := set(rule(source)))}
    assert broken == {}


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in RULES.items() for text in texts])
def test_a_broken_rule_is_seen(rule: Rule, text: str) -> None:
    assert list(rule(Source("common/planted.py", text, ast.parse(text))))


@pytest.mark.parametrize("source", everything(), ids=lambda source: source.name)
def test_no_test_is_switched_off(source: Source) -> None:
    """A test may skip while it runs, where data are missing; continuous integration allows not even that."""
    if source.name.startswith("tests/") and not source.name.endswith(("conftest.py", "test_rules.py")):
        off = {"pytest.mark.skip", "pytest.mark.skipif", "pytest.mark.xfail", "unittest.skip"}
        assert off & uses(source.tree) == set()
