#!/usr/bin/env bash
# Installs the programs that run what is built for other machines: emulators, Node, a browser. Root
# on Debian or Ubuntu only, a bounded time, and quietly. A test that lacks a program skips and says
# so, so nothing here fails.
set -u

apt=(timeout 100 apt-get -qq -y --no-install-recommends
     -o DPkg::Lock::Timeout=60 -o Acquire::Retries=1 -o Acquire::http::Timeout=20)
export DEBIAN_FRONTEND=noninteractive

# NAME PACKAGE...: installs the packages where there is no program of that name. Only the download
# is cut short, never the installing.
need() {
  local program=$1
  shift
  command -v "$program" > /dev/null && return
  "${apt[@]}" install -d "$@" && "${apt[@]:2}" install "$@" || echo "not installed: $program"
}

# Whether the emulator of 64-bit ARM knows every CPU of the tests; Debian 12's does not.
knows_all() {
  qemu-aarch64 -cpu help 2> /dev/null | grep -qw neoverse-v1
}

# The emulator of Debian 13, which needs no libraries, on a Debian before it.
newer_emulator() {
  knows_all && return
  local release dir
  release=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME") || return
  dir=$(mktemp -d)
  mkdir -p "$dir/sources" "$dir/lists/partial"
  cp /etc/apt/sources.list /etc/apt/sources.list.d/debian.* "$dir/sources" 2> /dev/null
  sed -i "s/\b$release\b/trixie/g" "$dir"/sources/*
  local options=(-o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$dir/sources"
                 -o Dir::State::Lists="$dir/lists" -o APT::Sandbox::User=root)
  (cd "$dir" && "${apt[@]}" "${options[@]}" update && "${apt[@]}" "${options[@]}" download qemu-user &&
   dpkg-deb -x qemu-user_*.deb . && cp usr/bin/qemu-aarch64 /usr/local/bin/) || echo "not installed: qemu-aarch64 of Debian 13"
  rm -rf "$dir"
}

[ "$(id -u)" = 0 ] && command -v apt-get > /dev/null || exit 0
for program in qemu-aarch64 qemu-system-arm node chromium; do
  command -v "$program" > /dev/null || missing=1
done
[ -n "${missing:-}" ] || ! knows_all || exit 0
timeout 60 apt-get -qq update || true
need qemu-aarch64 qemu-user
newer_emulator
[ -e /usr/aarch64-linux-gnu/lib/libc.so.6 ] || need arm64-loader libc6-arm64-cross
[ -e "/lib/ld-musl-$(uname -m).so.1" ] || need musl-loader musl
need qemu-system-arm qemu-system-arm
need node nodejs
need chromium chromium
exit 0
