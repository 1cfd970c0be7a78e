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

[ "$(id -u)" = 0 ] && command -v apt-get > /dev/null || exit 0
for program in qemu-aarch64 qemu-system-arm node chromium; do
  command -v "$program" > /dev/null || missing=1
done
[ -n "${missing:-}" ] || exit 0
timeout 60 apt-get -qq update || true
need qemu-aarch64 qemu-user
[ -e /usr/aarch64-linux-gnu/lib/libc.so.6 ] || need arm64-loader libc6-arm64-cross
[ -e "/lib/ld-musl-$(uname -m).so.1" ] || need musl-loader musl
need qemu-system-arm qemu-system-arm
need node nodejs
need chromium chromium
exit 0
