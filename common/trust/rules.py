"""What each identity may write and read at the broker, as Mosquitto's access file says it.

`%u` is the authenticated user: the name in its certificate, or its user name. A client id would be a mere claim.
Least of all for everybody: an edge writes below its own `up`, its own `status`, and as a peer in its own name; it reads
its own `down` and `status`, what peers send it, and what is public. It needs its own status to find out whether another
process uses its id. The cloud does not write what edges say, so that nobody can forge them, and a dashboard only reads.

What is public is a `pattern` without `%u`: a `topic` above the first `user` would count for anonymous clients only. Of
such a pattern Mosquitto warns at each start, to no harm.

Mosquitto does not refuse a subscription that reaches too far: it delivers nothing of it. Nor does it tell whoever
speaks MQTT 3.1.1 that a publication was thrown away.
"""

from __future__ import annotations

ACCESS = """\
# Written by mapa certs: who may do what. Changes are lost.
user cloud
topic write fl/+/edge/+/down/+
topic write fl/+/public/+
topic readwrite fl/+/cloud/status
topic read fl/+/edge/+/up/+
topic read fl/+/edge/+/status
topic read $SYS/#

user dashboard
topic read fl/+/public/+
topic read fl/+/cloud/status
topic read fl/+/edge/+/status
topic read fl/+/edge/+/up/report
topic read $SYS/#

pattern write fl/+/edge/%u/up/+
pattern readwrite fl/+/edge/%u/status
pattern read fl/+/edge/%u/down/+
pattern read fl/+/public/+
pattern write fl/+/peer/%u/+
pattern read fl/+/peer/+/%u
"""
HEALTH = """\
# Written by mapa certs: all that the health check may see. Changes are lost.
topic read $SYS/broker/uptime
topic read $SYS/broker/version
"""
OPEN = "pattern readwrite #\n"
"""No rules at all: what the checks of these rules are themselves checked with."""
