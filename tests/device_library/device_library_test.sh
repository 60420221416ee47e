#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# Builds the device type of outside/ with the engine of a build folder, and runs graphs on it.
# Usage: device_library_test.sh BUILD_DIR COMPILER BUILD_TYPE FLAGS
set -euo pipefail
build=$(cd "$1" && pwd) compiler=$2 build_type=$3 flags=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$build/device_library_test

rm -rf "$work"
mkdir -p "$work"
{
  cmake -G Ninja -S "$here/outside" -B "$work" -DMillraceEngine_DIR="$build" -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_CXX_FLAGS="$flags -Wall -Wextra -Wshadow -Werror" -DCMAKE_BUILD_TYPE="$build_type"
  cmake --build "$work"
} >"$work/build.log" 2>&1 || {
  cat "$work/build.log" >&2
  exit 1
}
"$work/npu_program"
