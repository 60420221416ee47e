#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# Installs the packages of tools/packages.txt that are missing, with --dev also those of tools/packages-dev.txt, as
# root or through sudo without a password. Where neither is possible it prints the line to run and fails. Does nothing,
# quickly, when nothing is missing. --list SYSTEM prints the names of the packages on fedora, arch, opensuse or debian.
set -euo pipefail
folder=$(dirname "${BASH_SOURCE[0]}")
lists=("$folder/packages.txt")
system=
while (( $# > 0 )); do
  case $1 in
    --dev) lists+=("$folder/packages-dev.txt") ;;
    --list)
      system=${2:-}
      if [[ " debian fedora arch opensuse " != *" $system "* ]]; then
        echo "setup: --list takes debian, fedora, arch or opensuse" >&2
        exit 2
      fi
      shift
      ;;
    *)
      echo "setup: there is no option '$1'; there are --dev, --list SYSTEM" >&2
      exit 2
      ;;
  esac
  shift
done

names() { # of the packages on a system, each once
  if [[ $1 == debian ]]; then
    sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "${lists[@]}"
  else
    sed -n "/^#/d; s/.*[#;] *$1 \([^;:]*\).*/\1/p" "${lists[@]}" | tr ' ' '\n' | awk 'NF && !seen[$0]++'
  fi
}

if [[ -n $system ]]; then
  names "$system"
  exit 0
fi
if ! command -v dpkg-query >/dev/null; then
  echo "setup: no dpkg here. Millrace is built and tested on Debian 12; what it needs is called elsewhere:"
  # shellcheck disable=SC2046
  {
    echo "  Fedora:   dnf install" $(names fedora)
    echo "  Arch:     pacman -S --needed" $(names arch)
    echo "  openSUSE: zypper install" $(names opensuse)
  }
  echo "  Versions that are needed at least, and Debian's names: ${lists[*]}"
  exit 0
fi

mapfile -t wanted < <(names debian)
missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [[ $state == "install ok installed" ]] || missing+=("$package")
done
if (( ${#missing[@]} == 0 )); then
  echo "setup: all ${#wanted[@]} packages are installed"
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
