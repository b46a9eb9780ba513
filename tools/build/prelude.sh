# SPDX-License-Identifier: MIT
# prelude.sh - how every script in tools begins. Sourced, with `script` set to its full path and `root`
# to the top of the tree.
#
# It starts the script over in an environment of which every variable is known, because LIBRARY_PATH, CFLAGS,
# PYTHONPATH, LD_PRELOAD, TMPDIR and the like change what is built and run, and nobody remembers having set them. It
# then goes to the top of the tree and offers say, die, logged and only_run.

# Serves only where files can be made, with a path that leaves room for the name of a unix socket (108 bytes in all).
usable_tmpdir()
{
    case $1 in /*) ;; *) return 1 ;; esac
    [ ${#1} -le 40 ] && [ -d "$1" ] && [ -w "$1" ] && [ -x "$1" ]
}

# The mark is this process's own number, so that one inherited from a parent does not count.
if [ "${RDL_PRELUDE-}" != $$ ]; then
    usable_tmpdir "${TMPDIR-}" || TMPDIR=/tmp
    exec env -i RDL_PRELUDE=$$ PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TMPDIR="$TMPDIR" \
        ${HOME+HOME="$HOME"} ${USER+USER="$USER"} ${LOGNAME+LOGNAME="$LOGNAME"} ${TERM+TERM="$TERM"} \
        ${http_proxy+http_proxy="$http_proxy"} ${HTTP_PROXY+HTTP_PROXY="$HTTP_PROXY"} \
        ${https_proxy+https_proxy="$https_proxy"} ${HTTPS_PROXY+HTTPS_PROXY="$HTTPS_PROXY"} \
        ${no_proxy+no_proxy="$no_proxy"} ${NO_PROXY+NO_PROXY="$NO_PROXY"} \
        ${SSL_CERT_FILE+SSL_CERT_FILE="$SSL_CERT_FILE"} ${SSL_CERT_DIR+SSL_CERT_DIR="$SSL_CERT_DIR"} \
        ${SUDO_ASKPASS+SUDO_ASKPASS="$SUDO_ASKPASS"} ${JAVA_HOME+JAVA_HOME="$JAVA_HOME"} \
        ${JAVA_TOOL_OPTIONS+JAVA_TOOL_OPTIONS="$JAVA_TOOL_OPTIONS"} ${MAVEN_OPTS+MAVEN_OPTS="$MAVEN_OPTS"} \
        /bin/sh "$script" "$@"
fi

umask 022
cd "$root" || exit 1
root=$(pwd -P)
self=${script#"$root/"}
logs=$root/build/log

say()
{
    printf '%s\n' "$*"
}

# One line, and out.
die()
{
    printf '%s: %s\n' "$self" "$*" >&2
    exit 1
}

# logged NAME BOUND COMMAND...: run it for at most BOUND (as timeout(1) takes it), its output in build/log/NAME.log.
logged()
{
    log=$logs/$1.log
    bound=$2
    shift 2
    timeout --kill-after=10 "$bound" "$@" >"$log" 2>&1 </dev/null
}

# Two runs in one tree would build into the same files: the second waits for the first.
only_run()
{
    exec 9>"$root/build/lock" || die "cannot write to $root/build"
    flock --nonblock 9 && return
    say "Waiting for another run in $root to end."
    flock --timeout 3600 9 || die "another run in $root has not ended within an hour"
}

mkdir -p "$logs" 2>/dev/null
[ -w build ] && [ -w "$logs" ] || die "cannot write to $root/build"
