#!/usr/bin/env bash
# Builds the images of docker/Dockerfile with the first of docker, podman and buildah that works on this machine.
#
#   scripts/image.sh               batfill, the core
#   scripts/image.sh core all      also batfill:all, with every extra and pybatsim
#   scripts/image.sh --builder     build nothing, print which of the three works
#
# BASE=NAME starts from another image than python:3.12-slim; BASE=debian from Debian 12, made here (scripts/debian.sh).
# IMAGE=NAME is the images' name instead of batfill.
set -euo pipefail
cd "$(dirname "$0")/.."
export BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot}  # needs neither a daemon nor a container runtime

refuse() {
    echo "image: $1" >&2
    exit 2
}

works() {
    case $1 in
        docker) docker info && docker buildx version ;;
        *) "$1" info ;;
    esac > /dev/null 2>&1
}

tried=
for builder in docker podman buildah none; do
    if [ $builder = none ]; then
        refuse "no builder works here (${tried%, }); on Debian or Ubuntu: apt-get install --no-install-recommends buildah mmdebstrap"
    elif ! command -v $builder > /dev/null; then
        tried+="$builder is not installed, "
    elif works $builder; then
        break
    else
        tried+="$builder does not run, "
    fi
done
if [ "${1:-}" = --builder ]; then
    echo $builder
    exit
fi
for target in "$@"; do
    [[ $target = core || $target = all ]] || refuse "unknown target '$target'; known: core, all"
done

base=${BASE:-python:3.12-slim}
if [ "$base" = debian ]; then
    base=batfill-debian:12
    scripts/debian.sh $builder $base
fi

# The build's network is this machine's: pip's settings and the certificates are mounted while a step runs, so that no
# layer has them.
secrets=$(mktemp -d)
trap 'rm -rf "$secrets"' EXIT
settings=$(python3 -m pip config list 2> /dev/null || true)  # those of the environment first, which win
kept='index-url|extra-index-url|trusted-host|proxy|timeout'
{
    echo "[global]"
    sed -nE "s/^(:env:|global)\.($kept)='(.*)'$/\2 = \3/p" <<< "$settings" | sed -E 's/file:[^ ]+//g' | awk '!seen[$1]++'
} > "$secrets/pip"
certificates=$(sed -nE "s/^(:env:|global)\.cert='(.*)'$/\2/p" <<< "$settings" | head -n 1)
certificates=${certificates:-${SSL_CERT_FILE:-}}
options=(--secret "id=pip,src=$secrets/pip" --network host --build-arg "BASE=$base" --file docker/Dockerfile)
if [ -f "$certificates" ]; then
    echo "cert = /run/secrets/certificates" >> "$secrets/pip"
    options+=(--secret "id=certificates,src=$certificates")
fi
if [ $builder = docker ]; then  # the others pass the proxies on, and need to be told what to ignore
    options+=(--load)
    for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
        [ -z "${!name:-}" ] || options+=(--build-arg $name)
    done
else  # without layers of their own the steps leave no image behind
    options+=(--layers=false --ignorefile docker/Dockerfile.dockerignore)
fi

for target in "${@:-core}"; do
    name=${IMAGE:-batfill}
    [ "$target" = core ] || name+=:$target
    echo "image: $builder builds $name from $base; how long it takes depends on what it has to fetch" >&2
    $builder build "${options[@]}" --target "$target" --tag "$name" . >&2 \
        || refuse "$builder could not build $name, for the reason above; if it cannot fetch $base, try BASE=debian"
    runner=$builder
    [ $builder != buildah ] || runner=podman  # buildah only builds
    echo "image: $name is ready; run the sample's experiment with: $runner run --rm $name" >&2
done
