"""Who may talk to the broker: keys, certificates and their authority, passwords, access rules, enrolment.

Nothing here is needed to decide anything, and no node imports it: programs do, before there is a node.
"""

from __future__ import annotations

import re

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
"""What an identity is called: in its certificate, as user of the broker, and so in topics."""
BROKER = "broker"
"""The one name that no client can have."""
