#!/bin/sh
# Runs packtool as the owner of /data, so that what it writes there belongs to whoever mounted the folder.
# A container started with --user keeps that user; a folder owned by root (or a rootless engine's user) is left to root.
# exec throughout: packtool becomes process 1 and gets the signals of `docker stop` itself.
set -eu
if [ "$(id -u)" -eq 0 ] && [ -d /data ]; then
    owner=$(stat -c %u /data)
    group=$(stat -c %g /data)
    if [ "$owner" -ne 0 ]; then
        exec setpriv --reuid="$owner" --regid="$group" --clear-groups --no-new-privs -- packtool "$@"
    fi
fi
exec packtool "$@"
