"""Which stretch of the machine's uptime this is.

A file that was written is in the kernel's memory at once, and stays there when its process is killed. Only when the
machine itself goes down can it be lost before it is on the disk.
"""

from __future__ import annotations

from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
"""Linux draws it anew whenever the machine starts; in containers it is that of the machine."""


def current() -> str:
    """A name for the time since the machine started; empty where there is no telling, as on other systems."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
