#!/usr/bin/env bash
# Installs what is missing, imports your own sessions, and mounts them. A repeat installs nothing.
set -euo pipefail

here=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd -P)

usage() {
    cat <<'END'
Usage: ./mount.sh [--store DIR] [--foreground] DIR    import your sessions and mount them at DIR
       ./mount.sh --umount DIR                        unmount
       ./mount.sh --setup [--dev]                     only install what is missing

Installs what is missing (fuse3 and a compiler with apt; Python packages into a venv), imports the sessions of your
AI tools from where the tools keep them, and mounts all conversations at DIR.

  --store DIR     where the conversations are kept (default $CONVFS_STORE, else $XDG_DATA_HOME/convfs)
  --foreground    stay in the foreground; Ctrl-C unmounts
  --dev           install what the tests need, too

Environment: PYTHON names the Python to use (3.11 or newer), CONVFS_VENV the directory of the venv (default .venv
beside this script, or in $XDG_CACHE_HOME where that cannot be written).
END
}

die() {
    printf 'mount.sh: %s\n' "$1" >&2
    exit "${2:-1}"
}

say() {
    printf '%s\n' "$1" >&2
}

# --- the system's part ----------------------------------------------------------------------------

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Whether pyfuse3, which has no wheel, can be built for this Python, and a venv be made with it.
has_headers() {
    "$1" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
}

has_venv() {
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

find_python() {
    local candidate found=
    for candidate in ${PYTHON:-python3 /usr/bin/python3 python3.14 python3.13 python3.12 python3.11}; do
        candidate=$(command -v "$candidate") || continue
        is_new_enough "$candidate" || continue
        if has_headers "$candidate" && has_venv "$candidate"; then
            found=$candidate
            break
        fi
        # apt can complete the system's own Python, and only that.
        case $(readlink -f "$candidate") in
            /usr/bin/*) found=${found:-$candidate} ;;
        esac
    done
    [ -n "$found" ] || die "Python 3.11 or newer with its headers is needed${PYTHON:+ (PYTHON=$PYTHON is not)}: $(python_advice), and name it with PYTHON=/path/to/python3"
    printf '%s\n' "$found"
}

# A system whose own Python is older has no newer one under that name.
python_advice() {
    local own
    own=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || own=
    if [ -n "$own" ] && ! is_new_enough /usr/bin/python3; then
        printf 'python3 of this system is %s, so install another (a newer release of the system, pyenv, or: uv python install 3.12)' "$own"
    else
        printf 'install it (apt-get install python3 python3-dev python3-venv)'
    fi
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

apt_install() {
    command -v apt-get >/dev/null || die "these packages are missing, and apt-get to install them with is not there: $*: install what your system calls them"
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "these packages are missing: have root run: apt-get install $*"
        # Without a terminal nobody can type a password.
        [ -t 0 ] || sudo -n true 2>/dev/null || die "these packages are missing and sudo asks for a password: run: sudo apt-get install $*"
    fi
    say "Installing $* …"
    local log
    log=$(mktemp)
    # A fresh machine has no package lists yet, an old one has stale ones: update where the first try fails.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >"$log" 2>&1 ||
        { as_root apt-get update >>"$log" 2>&1 &&
            as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1; } ||
        die "apt-get could not install $*: see $log"
    rm -f "$log"
}

# --- the Python part ------------------------------------------------------------------------------

venv_directory() {
    if [ -n "${CONVFS_VENV:-}" ]; then
        printf '%s\n' "$CONVFS_VENV"
    elif [ -w "$here" ]; then
        printf '%s\n' "$here/.venv"
    else
        printf '%s\n' "${XDG_CACHE_HOME:-$HOME/.cache}/convfs/venv"
    fi
}

# What a venv was made from: a change in any of it means a new one.
fingerprint() {
    printf '%s\n' "$here"
    [ -z "${PYTHON:-}" ] || printf '%s\n' "$PYTHON"
    cat "$here/pyproject.toml" "$here/fusefs/_opens.c" "$here/store/search/_words.c"
}

# A venv for the tests serves for mounting, too.
is_ready() {
    local stamp stamps=("$venv/.convfs-dev")
    [ "$dev" = 1 ] || stamps+=("$venv/.convfs")
    for stamp in "${stamps[@]}"; do
        if [ -f "$stamp" ] && [ "$(<"$stamp")" = "$(fingerprint)" ]; then
            "$venv/bin/python" -c 'import pyfuse3' >/dev/null 2>&1
            return
        fi
    done
    return 1
}

# What is in a venv that works is kept: building pyfuse3 takes a while.
fill_venv() {
    local clear=$1 python=$2 extra='[browse,http,mcp]'
    [ "$dev" = 0 ] || extra='[dev]'
    if [ -n "$clear" ] || ! is_new_enough "$venv/bin/python"; then
        rm -f "$venv/.convfs" "$venv/.convfs-dev"
        "$python" -m venv --clear "$venv" || return
    fi
    "$venv/bin/python" -m pip install --quiet --editable "$here$extra" && "$venv/bin/python" -c 'import pyfuse3'
}

setup() {
    local packages=() python= log
    venv=$(venv_directory)
    if ! command -v fusermount3 >/dev/null; then
        packages+=(fuse3)
    fi
    if [ "$dev" = 1 ]; then
        local tool
        for tool in rg:ripgrep rsync:rsync setfattr:attr strace:strace tmux:tmux git:git perl:perl \
            vim:vim nano:nano emacs:emacs-nox mcedit:mc ed:ed; do
            command -v "${tool%:*}" >/dev/null || packages+=("${tool#*:}")
        done
    fi
    if is_ready; then
        [ ${#packages[@]} = 0 ] || apt_install "${packages[@]}"
        return
    fi
    command -v python3 >/dev/null || [ -n "${PYTHON:-}" ] || packages+=(python3)
    command -v gcc >/dev/null || command -v cc >/dev/null || packages+=(gcc libc6-dev)
    command -v pkg-config >/dev/null || packages+=(pkg-config)
    pkg-config --exists fuse3 2>/dev/null || packages+=(libfuse3-dev)
    if [[ " ${packages[*]} " != *" python3 "* ]]; then
        python=$(find_python)
        local version
        version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
        has_headers "$python" || packages+=("$version-dev")
        has_venv "$python" || packages+=("$version-venv")
    else
        packages+=(python3-dev python3-venv)
    fi
    [ ${#packages[@]} = 0 ] || apt_install "${packages[@]}"
    python=${python:-$(find_python)}

    say "Preparing Python packages in $venv …"
    mkdir -p "$(dirname "$venv")"
    log=$(mktemp)
    fill_venv "" "$python" >"$log" 2>&1 || fill_venv clear "$python" >>"$log" 2>&1 ||
        die "the Python packages could not be installed into $venv: see $log"
    rm -f "$log"
    if [ "$dev" = 1 ]; then
        fingerprint >"$venv/.convfs-dev"
    else
        fingerprint >"$venv/.convfs"
    fi
}

# A browser, for the tests of exported pages; where a system has none to install they are skipped.
add_browser() {
    local name
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        ! command -v "$name" >/dev/null || return 0
    done
    [ ! -e "$venv/.convfs-no-browser" ] || return 0
    (apt_install chromium) || touch "$venv/.convfs-no-browser"
}

# --- the command line -----------------------------------------------------------------------------

action=mount dev=0 mountpoint= venv=
options=() mount_options=()
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        --store) [ $# -ge 2 ] || die "--store needs a directory: see ./mount.sh --help" 2; options+=(--store "$2"); shift ;;
        --store=*) options+=(--store "${1#--store=}") ;;
        --foreground) mount_options+=(--foreground) ;;
        --umount) action=umount ;;
        --setup) action=setup ;;
        --dev) dev=1 ;;
        --) shift; break ;;
        -*) die "there is no option $1: see ./mount.sh --help" 2 ;;
        *) [ -z "$mountpoint" ] || die "one directory is enough, '$1' is a second: see ./mount.sh --help" 2; mountpoint=$1 ;;
    esac
    shift
done
[ $# = 0 ] || mountpoint=$1

if [ "$action" = setup ]; then
    setup
    [ "$dev" = 0 ] || add_browser
    printf '%s\n' "$venv"
    exit 0
fi
[ -n "$mountpoint" ] || die "which directory? For example: ./mount.sh ~/conversations" 2
if [ "$action" = umount ]; then
    venv=$(venv_directory)
    # Nothing is installed to unmount: the daemon writes everything before it ends.
    is_ready || exec fusermount3 -u -- "$mountpoint"
else
    setup
fi
convfs=("$venv/bin/convfs" "${options[@]}")
case $action in
    umount) exec "${convfs[@]}" umount "$mountpoint" ;;
esac
"${convfs[@]}" import --demo
exec "${convfs[@]}" mount "${mount_options[@]}" "$mountpoint"
