#!/usr/bin/env bash
# Sends what /openapi.json allows, and what it does not, to a server with a real model:
#
#     tests/clients/schemathesis.sh target/debug/formwork [OPTION]…
#
# No answer may be a 500, and each, and each event of a stream, must be what the document says of it. Options go to
# `schemathesis run`. What is installed is kept in $FORMWORK_CLIENTS_CACHE; without it, in a folder that is removed at the end.
set -euo pipefail

binary=$(realpath "${1:?usage: tests/clients/schemathesis.sh BINARY [OPTION]…}")
shift
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
cache=${FORMWORK_CLIENTS_CACHE:-$work/cache}
model=${FORMWORK_CLIENTS_MODEL:-smollm2-135m-instruct}
server=
trap '[[ -z $server ]] || kill "$server"; wait; rm -rf "$work"' EXIT

step() { printf '\n== %s\n' "$*"; }

step install
folder=$cache/schemathesis
wanted=$here/requirements/schemathesis.txt
mkdir -p "$cache"
if ! cmp --silent "$wanted" "$folder/installed.txt"; then
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted"
    cp "$wanted" "$folder/installed.txt"
fi

step serve
# Little room for those that ask for much.
"$binary" serve -m "$model" --port 0 --ctx 256 --api-key key 2>"$work/server.log" &
server=$!
until url=$(grep -o 'http://[0-9.:]*/v1' "$work/server.log"); do
    kill -0 "$server" || { server=; cat "$work/server.log"; exit 1; }
    sleep 0.1
done
url=${url%/v1}
curl --silent --fail --retry 60 --retry-delay 1 --retry-all-errors --output "$work/health" "$url/health"

step schemathesis
cd "$work"
export PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 SCHEMATHESIS_HOOKS=schemathesis_hooks
"$folder/bin/schemathesis" --config-file "$here/schemathesis.toml" run "$url/openapi.json" --url "$url" \
    --header 'Authorization: Bearer key' --phases examples,coverage,fuzzing --max-examples 30 --workers 2 --seed 1 \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
    --request-timeout 120 --suppress-health-check all "$@"
