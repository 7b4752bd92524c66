#!/bin/sh
# One run in containers: starts everything, shows what the cloud says, stops everything, gives the cloud's exit code.
#
# Not `docker compose up --exit-code-from cloud`: that tears all down as soon as one edge ends.
set -eu
cd "$(dirname "$0")/.."
MAPA_RUN=${MAPA_RUN:-$(basename "${EXPERIMENT:-demo}" .yaml)-$(date +%Y%m%d-%H%M%S)}
export MAPA_RUN

finish() {
    trap - EXIT INT TERM
    docker compose stop || true
    docker compose down || true
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

docker compose up --build --detach
cloud=$(docker compose ps --all --quiet cloud)
docker logs --follow "$cloud" &
# A cloud that was killed is started again, and goes on; one that failed says so again, and is left alone after a while.
status=$(docker wait "$cloud")
while [ "$(docker inspect --format '{{.State.Running}}' "$cloud")" = true ]; do
    sleep 1
    status=$(docker wait "$cloud")
done

# The edges account for their privacy and leave; whoever hangs is stopped after 20 seconds.
left=20
while [ "$left" -gt 0 ] && [ -n "$(docker compose ps --quiet --status running edge)" ]; do
    sleep 1
    left=$((left - 1))
done
finish
echo "run $MAPA_RUN: cloud exit code $status; results in results/$MAPA_RUN"
exit "$status"
