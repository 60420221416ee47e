#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# Installs the packages of tools/packages.txt that are missing, as root or through sudo without a password. Where
# neither is possible it prints the line to run and fails. Does nothing, quickly, when nothing is missing.
set -euo pipefail
list="$(dirname "${BASH_SOURCE[0]}")/packages.txt"

if ! command -v dpkg-query >/dev/null; then
  echo "setup: no dpkg here; on other systems than Debian install the counterparts of $list yourself"
  exit 0
fi

mapfile -t wanted < <(sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$list")
missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [[ $state == "install ok installed" ]] || missing+=("$package")
done
if (( ${#missing[@]} == 0 )); then
  echo "setup: all ${#wanted[@]} packages are there"
  exit 0
fi

if (( $(id -u) == 0 )); then
  as_root=(env)
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  as_root=(sudo -n env)
else
  echo "setup: ${#missing[@]} packages are missing and installing them needs root. Run this, then try again:" >&2
  echo "  sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
  exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@" >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    echo "setup: apt-get $1 failed" >&2
    return 1
  }
}
echo "setup: reading the package lists"
apt update || echo "setup: going on with the lists at hand"
echo "setup: installing ${missing[*]}"
apt install -y --no-install-recommends "${missing[@]}"
echo "setup: done"
