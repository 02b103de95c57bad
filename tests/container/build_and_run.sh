#!/usr/bin/env bash
# Builds the Dockerfile and runs the image the way README says, one line for each check; stops at the first failure.
#
#     tests/container/build_and_run.sh
#
# With a docker daemon (`docker info` answers), docker does it. Otherwise podman does, on a private storage folder that
# is removed at the end; as root, or as a user with subordinate ids. On Debian and Ubuntu, podman's way needs
#
#     apt-get install --no-install-recommends podman crun buildah uidmap mmdebstrap
#
# The base image is the Dockerfile's default, pulled; where it cannot be, mmdebstrap makes one from this machine's own
# package sources (its Python must be 3.11 or newer). Settings, from the environment:
#
#     BASE_IMAGE       another base image, by a name that the engine can find
#     CONTAINER_CACHE  podman only: a folder to keep the base image and the layers in, which makes a second run short
#     STORAGE_DRIVER   podman only: overlay (default) or vfs, where overlay does not work; vfs copies everything
#
# Ownership is set and read inside containers, so that nothing here needs root by itself.
set -euo pipefail

repository=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/packtool-container.XXXXXX")
mark=packtool.test=$(basename "$scratch")  # a label on the image, and so on its containers: what is ours to remove
previous=""                                # the image that was called packtool before, if any
engine=""

# ---------------------------------------------------------------------------------------------------- reporting
started=$(date +%s%N)
say() { # one line: seconds since the last one, and what was shown
    local now
    now=$(date +%s%N)
    printf '%-5s %6d.%01d s  %s\n' "$1" $(((now - started) / 1000000000)) $(((now - started) / 100000000 % 10)) "$2"
    started=$(date +%s%N)
}
fail() {
    say FAIL "$1"
    if [ -s "$scratch/log" ]; then
        echo "--- last output"
        tail -n 40 "$scratch/log"
    fi
    exit 1
}
quietly() { "$@" >"$scratch/log" 2>&1; } # its output is shown only if the next check fails

# ---------------------------------------------------------------------------------------------------- clean up
clean_up() {
    cd "$repository"
    exec 9>&- || true
    if [ -n "${built:-}" ]; then docker ps -aq --filter "label=$mark" | xargs -r docker rm -f >/dev/null || true; fi
    # The folders belong to the users that the checks gave them to.
    if [ -n "$(find "$scratch/data" -mindepth 1 -print -quit 2>/dev/null)" ] && [ -n "${built:-}" ]; then
        inside sh -c 'rm -rf /all/*' || true
    fi
    if [ "$engine" = docker ] && [ -n "${built:-}" ]; then
        docker rmi -f packtool >/dev/null || true
        if [ -n "$previous" ]; then docker tag "$previous" packtool:latest; fi
    elif [ "$engine" = podman ] && [ -z "${CONTAINER_CACHE:-}" ]; then
        podman_reset || true
    fi
    rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# ---------------------------------------------------------------------------------------------------- the engine
# A client without a daemon is no engine, so `docker` on the PATH proves nothing.
use_podman() {
    command -v podman >/dev/null || fail "an engine: no docker daemon answers, and podman is not installed"
    engine=podman
    storage=${CONTAINER_CACHE:-$scratch/storage}
    mkdir -p "$scratch/bin" "$storage"
    storage=$(cd "$storage" && pwd)
    # No cgroups and no network setup of our own: both fail inside many containers and virtual machines, and nothing
    # here needs them. The limits are low enough for a root that may not raise its own.
    cat >"$scratch/containers.conf" <<CONF
[containers]
cgroups = "disabled"
netns = "host"
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
CONF
    if command -v crun >/dev/null; then echo 'runtime = "crun"' >>"$scratch/containers.conf"; fi
    # crun refuses a machine with both cgroup versions mounted; in a mount namespace of its own, podman sees only one.
    local enter=""
    if [ "$(id -u)" -eq 0 ] && grep -q ' /sys/fs/cgroup/unified cgroup2 ' /proc/mounts; then
        enter="unshare -m sh -c 'umount /sys/fs/cgroup/unified; exec \"\$0\" \"\$@\"'"
    fi
    cat >"$scratch/bin/docker" <<SHIM
#!/bin/sh
export CONTAINERS_CONF='$scratch/containers.conf' BUILDAH_ISOLATION=chroot
exec $enter podman --root '$storage/root' --runroot '$storage/run' --storage-driver '${STORAGE_DRIVER:-overlay}' "\$@"
SHIM
    chmod +x "$scratch/bin/docker"
    PATH=$scratch/bin:$PATH # from here on `docker` is podman on its own storage
}
podman_reset() { # layers of a rootless podman belong to subordinate ids, which only podman can remove
    if [ "$(id -u)" -eq 0 ]; then
        docker umount -a -f >/dev/null 2>&1 || true
        rm -rf "$storage"
    else
        CONTAINERS_CONF=$scratch/containers.conf podman unshare rm -rf "$storage"
    fi
}

if docker info >/dev/null 2>&1; then
    engine=docker
    previous=$(docker image inspect -f '{{.Id}}' packtool:latest 2>/dev/null || true)
    say ok "engine: docker"
else
    use_podman
    quietly docker info || fail "engine: podman does not start"
    say ok "engine: $(docker --version), no docker daemon"
fi

# ---------------------------------------------------------------------------------------------------- the base image
default_base=$(sed -n 's/^ARG BASE_IMAGE=//p' "$repository/Dockerfile")
base=${BASE_IMAGE:-$default_base}
local_base=localhost/packtool-test-base:latest
if docker image inspect "$base" >/dev/null 2>&1; then
    say ok "base image: $base, here already"
elif quietly timeout 600 docker pull -q "$base"; then
    say ok "base image: $base, pulled"
elif [ "$engine" = podman ] && docker image inspect "$local_base" >/dev/null 2>&1; then
    base=$local_base
    say ok "base image: made here before, from CONTAINER_CACHE"
else
    command -v mmdebstrap >/dev/null || fail "base image: $base cannot be pulled, and mmdebstrap is not installed"
    suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    for sources in /etc/apt/sources.list.d/{debian,ubuntu}.sources /etc/apt/sources.list; do
        if [ -s "$sources" ]; then break; fi
    done
    quietly mmdebstrap -q --variant=minbase --include=python3,python3-venv,ca-certificates \
        "$suite" "$scratch/base.tar" "$sources" || fail "base image: mmdebstrap"
    base=$local_base
    quietly docker import "$scratch/base.tar" "$base" || fail "base image: import"
    rm "$scratch/base.tar"
    say ok "base image: $suite with its own Python, made by mmdebstrap (the default could not be pulled)"
fi

# ---------------------------------------------------------------------------------------------------- build
# A machine behind a proxy with its own certificate authority needs that authority inside the build as well.
bundle=/etc/ssl/certs/ca-certificates.crt
trust=()
if [ "$engine" = podman ]; then
    trust=(--pull=never)
    if [ -s "$bundle" ]; then trust+=(-v "$bundle:$bundle:ro"); fi
fi
quietly docker build "${trust[@]}" --build-arg "BASE_IMAGE=$base" --label "$mark" -t packtool "$repository" ||
    fail "build"
built=yes
size=$(docker image inspect -f '{{.Size}}' packtool)
say ok "build: $((size / 1000000)) MB with the base image"

# ---------------------------------------------------------------------------------------------------- checks
inside() { docker run --rm --entrypoint "$1" -v "$scratch/data:/all" packtool "${@:2}"; } # a plain command, as root
folder() { # folder NAME OWNER: a data folder of mode 755 with the example in it, all of it OWNER's
    mkdir -p "$scratch/data/$1"
    cp "$repository/docs/examples/instruct.jsonl" "$scratch/data/$1/dataset.jsonl"
    inside chown -R "$2" "/all/$1"
}
code() { # code EXPECTED WHAT COMMAND...: the command's exit code
    local expected=$1 what=$2 got=0
    shift 2
    quietly "$@" || got=$?
    [ "$got" -eq "$expected" ] || fail "$what: expected exit code $expected, got $got"
}
owned() { # owned NAME OWNER WHAT: a complete dataset, and every file in it OWNER's
    local owners
    inside test -s "/all/$1/manifest.json" || fail "$3: there is no $1/manifest.json"
    owners=$(inside find "/all/$1" -printf '%U:%G\n' | sort -u)
    [ "$owners" = "$2" ] || fail "$3: expected all files to belong to $2, got $owners"
}

code 0 "help" docker run --rm packtool --help
grep -q pack "$scratch/log" || fail "help: it does not name the command pack"
say ok "help"

# README's line as it stands there, in a folder of an ordinary user.
readme_line() { docker run -v "$PWD:/data" packtool pack /data/dataset.jsonl --max-seq-len 4096; }
# shellcheck disable=SC2016  # $PWD is README's text here, not a variable
grep -qF 'docker run -v "$PWD:/data" packtool pack /data/dataset.jsonl --max-seq-len 4096' "$repository/README.md" ||
    fail "README: it no longer has the command that is tested here"
folder user 1234:1234
cd "$scratch/data/user"
code 0 "README's command" readme_line
owned user/dataset.packed 1234:1234 "README's command"
say ok "README's command, in a folder of user 1234: exit code 0, the dataset belongs to 1234"

folder root 0:0
cd "$scratch/data/root"
code 0 "root's folder" readme_line
owned root/dataset.packed 0:0 "root's folder"
say ok "the same in a folder of root: the dataset belongs to root"

folder other 4321:4321
cd "$scratch/data/other"
run=(docker run --rm -v "$PWD:/data")
pack=(packtool pack /data/dataset.jsonl --max-seq-len 4096)
code 0 "--user" "${run[@]}" --user 4321:4321 "${pack[@]}" -o /data/by-user
owned other/by-user 4321:4321 "--user"
say ok "--user 4321:4321 is respected"

code 2 "missing argument" "${run[@]}" packtool pack
say ok "a missing argument: exit code 2"

inside sh -c 'echo "{\"text\": " >/all/other/broken.jsonl'
code 1 "broken record" "${run[@]}" packtool pack /data/broken.jsonl --max-seq-len 4096
say ok "a broken record: exit code 1"

code 0 "--network=none" "${run[@]}" --network=none "${pack[@]}" -o /data/offline
owned other/offline 4321:4321 "--network=none"
say ok "--network=none: it works offline"

code 0 "--read-only" "${run[@]}" --read-only --tmpfs /tmp "${pack[@]}" -o /data/read-only
owned other/read-only 4321:4321 "--read-only"
say ok "--read-only --tmpfs /tmp: it writes nowhere else"

code 0 "--cap-drop=all" "${run[@]}" --user 4321:4321 --cap-drop=all --security-opt=no-new-privileges "${pack[@]}" \
    -o /data/no-capabilities
owned other/no-capabilities 4321:4321 "--cap-drop=all"
say ok "--user with --cap-drop=all and no-new-privileges"

# shellcheck disable=SC2016  # $other is the inner shell's
quietly inside sh -c 'cd /all/other && for other in offline read-only no-capabilities; do
    cmp by-user/manifest.json "$other/manifest.json" || exit 1; done' || fail "equal bytes: the manifests differ"
say ok "all four manifests are equal, byte for byte"

# A run that waits for input which never ends is stopped: packtool is process 1 and must take the signal itself.
folder stream 1234:1234
cd "$scratch/data/stream"
mkfifo "$scratch/endless"
name=$(basename "$scratch")
docker run -i --name "$name" -v "$PWD:/data" packtool pack - -o /data/x --max-seq-len 4096 \
    <"$scratch/endless" >"$scratch/log" 2>&1 &
client=$!
exec 9>"$scratch/endless"
cat "$repository/docs/examples/instruct.jsonl" >&9
caught=0
for _ in $(seq 100); do # until process 1 has its handler installed: SIGTERM is bit 14 of the signals it catches
    mask=$(docker exec "$name" sed -n 's/^SigCgt:[[:space:]]*//p' /proc/1/status 2>/dev/null || true)
    if [ -n "$mask" ] && [ $(((0x$mask >> 14) & 1)) -eq 1 ]; then
        caught=1
        break
    fi
    sleep 0.1
done
[ "$caught" -eq 1 ] || fail "SIGTERM: process 1 never caught it"
sleep 1 # into the middle of its work
before=$(date +%s%N)
docker stop "$name" >/dev/null
took=$((($(date +%s%N) - before) / 1000000))
got=0
wait "$client" || got=$?
exec 9>&-
[ "$got" -eq 143 ] || fail "SIGTERM: expected exit code 143, got $got"
[ "$took" -lt 1000 ] || fail "SIGTERM: it took $took ms to stop"
left=$(inside ls -A /all/stream)
[ "$left" = dataset.jsonl ] || fail "SIGTERM: it left something behind: $left"
say ok "docker stop ends a running pack in $took ms: exit code 143, nothing left behind"

echo "all container checks passed"
