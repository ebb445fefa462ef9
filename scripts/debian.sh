#!/usr/bin/env bash
# Makes an image of Debian 12 with Python 3.11, pip and venv, from Debian's packages alone: scripts/debian.sh BUILDER NAME
set -euo pipefail
builder=$1 name=$2

if $builder inspect --type image "$name" > /dev/null 2>&1; then
    exit
fi
if ! command -v mmdebstrap > /dev/null; then
    echo "image: needs mmdebstrap for BASE=debian; on Debian or Ubuntu: apt-get install mmdebstrap" >&2
    exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "image: mmdebstrap makes $name, half a minute" >&2
if ! mmdebstrap --quiet --variant=minbase --include=ca-certificates,python3,python3-pip,python3-venv \
    --customize-hook='ln -s python3 "$1/usr/bin/python"' bookworm "$work/debian.tar"; then
    echo "image: mmdebstrap could not make Debian 12, for the reason above; does apt-get update work?" >&2
    exit 2
fi
if [ "$builder" = buildah ]; then
    container=$(buildah from scratch)
    buildah add --quiet "$container" "$work/debian.tar" / > /dev/null
    buildah commit --quiet --rm "$container" "$name" > /dev/null
else
    $builder import "$work/debian.tar" "$name" > /dev/null
fi
