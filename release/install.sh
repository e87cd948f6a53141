#!/bin/sh
# Installs the program from a folder or a URL with the archives of a release:
#     sh install.sh [--from DIR_OR_URL] [--to DIR] [--version V] [--target TARGET]
# It chooses the archive for this machine, compares its SHA-256 with SHA256SUMS, and copies the program to ~/.local/bin.
set -eu

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

usage() {
    cat <<'END'
usage: sh install.sh [--from DIR_OR_URL] [--to DIR] [--version V] [--target TARGET]
  --from DIR_OR_URL  folder or http(s) URL with SHA256SUMS and the archives [default: the folder of this script]
  --to DIR           folder for the program [default: ~/.local/bin]
  --version V        version to install [default: the only one there]
  --target TARGET    archive to install [default: the one for this machine];
                     x86_64-unknown-linux-gnu computes on GPUs
END
}

from='' to='' version='' target=''
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h)
        usage
        exit
        ;;
    --from | --to | --version | --target)
        [ $# -ge 2 ] && [ -n "$2" ] || fail "$1 needs a value"
        case $1 in
        --from) from=$2 ;;
        --to) to=$2 ;;
        --version) version=$2 ;;
        --target) target=$2 ;;
        esac
        shift 2
        ;;
    *)
        usage >&2
        fail "unknown argument \`$1\`"
        ;;
    esac
done

if [ -z "$from" ]; then
    from=$(dirname "$0")
    [ -f "$from/SHA256SUMS" ] || fail "no archives beside this script; name their folder or URL: --from DIR_OR_URL"
fi
if [ -z "$to" ]; then
    [ -n "${HOME:-}" ] || fail "HOME is not set; name the folder for the program: --to DIR"
    to=$HOME/.local/bin
fi
if [ -z "$target" ]; then
    system=$(uname -s) machine=$(uname -m)
    case $system-$machine in
    Linux-x86_64 | Linux-amd64) target=x86_64-unknown-linux-musl ;;
    Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-musl ;;
    Darwin-arm64) target=aarch64-apple-darwin ;;
    MINGW*-x86_64 | MSYS*-x86_64 | CYGWIN*-x86_64) fail "on Windows, unpack the archive for x86_64-pc-windows-gnu" ;;
    *) fail "no archive for $system on $machine; expected Linux on x86_64 or aarch64, or macOS on arm64" ;;
    esac
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# Copies a file from the place of the archives.
fetch() {
    case $from in
    http://* | https://*)
        if command -v curl >/dev/null; then
            curl -fsSL -o "$work/$1" "${from%/}/$1" || fail "${from%/}/$1 could not be downloaded"
        elif command -v wget >/dev/null; then
            wget -qO "$work/$1" "${from%/}/$1" || fail "${from%/}/$1 could not be downloaded"
        else
            fail "neither curl nor wget is installed; download the archives and name their folder: --from DIR"
        fi
        ;;
    *)
        [ -f "$from/$1" ] || fail "$from/$1: no such file"
        cp "$from/$1" "$work/$1"
        ;;
    esac
}

fetch SHA256SUMS
# The names of archives in the sums, after the sum and a blank or asterisk.
names=$(sed -n 's/^[0-9a-f]\{64\} [ *]\(formwork-[^/]*\.tar\.gz\)$/\1/p' "$work/SHA256SUMS")
found=''
for name in $names; do
    # shellcheck disable=SC2254 # Without a version, any fits.
    case $name in
    formwork-${version:-*}-"$target".tar.gz) found="$found $name" ;;
    esac
done
# shellcheck disable=SC2086 # Names have no blanks.
set -- $found
[ $# -gt 0 ] || fail "$from has no archive for ${version:+version $version and }$target; it has: ${names:-no archives}"
[ $# -eq 1 ] || fail "$from has several versions; choose one with --version: $*"
archive=$1
fetch "$archive"

expected=$(sed -n "s/^\([0-9a-f]\{64\}\) [ *]$archive\$/\1/p" "$work/SHA256SUMS")
if command -v sha256sum >/dev/null; then
    given=$(sha256sum "$work/$archive")
elif command -v shasum >/dev/null; then
    given=$(shasum -a 256 "$work/$archive")
else
    fail "neither sha256sum nor shasum is installed, so the archive cannot be checked"
fi
given=${given%% *}
[ "$given" = "$expected" ] || fail "$archive has the SHA-256 $given, but SHA256SUMS has $expected; nothing was installed"

program=${archive%.tar.gz}/formwork
tar -xzf "$work/$archive" -C "$work" "$program" || fail "$archive has no $program"
mkdir -p "$to" || fail "$to could not be created"
# A running program is replaced as a whole.
if ! { cp "$work/$program" "$to/.formwork.$$" && chmod 755 "$to/.formwork.$$" && mv -f "$to/.formwork.$$" "$to/formwork"; }; then
    rm -f "$to/.formwork.$$"
    fail "$to/formwork could not be written"
fi
"$to/formwork" --version >/dev/null || fail "$to/formwork is installed but does not start on this machine"

start=formwork
[ "$(command -v formwork || true)" = "$to/formwork" ] || start=$to/formwork
echo "Installed $to/formwork. Start with: $start run \"Tell me about tides.\""
