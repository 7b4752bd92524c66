"""Privacy totals and profiles from an independent computation, with the tolerance that each row states.

Made with other code (a double integral over radius and direction; direct sums for Renyi divergences; Monte Carlo), so
agreement says something about both. `*_upper` values are pessimistic.
"""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

Row = dict[str, Any]


@lru_cache(maxsize=1)
def _sections() -> dict[str, list[Row]]:
    content: dict[str, list[Row]] = json.loads(Path(__file__).with_name("golden_privacy.json").read_text())
    return content


def rows(section: str) -> list[Row]:
    """All rows of one section."""
    return _sections()[section]
