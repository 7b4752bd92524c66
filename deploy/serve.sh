#!/bin/sh
# Runs the broker for as long as anybody is connected, so that `docker compose up` returns when the run is over.
#
# It ends BROKER_LINGER seconds after its last client has left (an edge that comes in that time still learns that
# the run is over), or BROKER_PATIENCE seconds after its start if none came. Plain sh: the image has no other shell.
set -eu

mosquitto -c /mosquitto/guard/mosquitto.conf &
broker=$!
end() { kill -TERM "$broker" 2>/dev/null || true; }
trap end TERM INT
trap 'kill -HUP "$broker"' HUP   # it reads certificates, revocations and rules again

# How many clients are connected from outside this container: established (01) connections to port 8883 (22B3).
# The health check comes from 127.0.0.1 or ::1 and does not count.
clients() {
    cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
        awk '$2 ~ /:22B3$/ && $4 == "01" && $3 !~ /^(0100007F|00000000000000000000000001000000):/' | wc -l
}

idle=0
limit=$BROKER_PATIENCE
while kill -0 "$broker" 2>/dev/null; do
    sleep 1 &
    wait $! || true        # unlike a sleep in the foreground, it lets a signal through at once
    if [ "$(clients)" -gt 0 ]; then
        idle=0
        limit=$BROKER_LINGER
    else
        idle=$((idle + 1))
    fi
    if [ "$idle" -eq "$limit" ]; then
        echo "no client for $limit seconds: the broker ends"
        end
    fi
done
wait "$broker"
