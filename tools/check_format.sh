#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# Checks that C++ files are as clang-format 14 writes them, and that every source begins with the licence header.
# tools/check_format.sh [--fix] [ROOT]: --fix formats the files instead.
set -euo pipefail
fix=0
if [[ ${1:-} == --fix ]]; then
  fix=1
  shift
fi
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${1:-$tools/..}"

formatter=$(command -v clang-format-14 || command -v clang-format || true)
if [[ -z $formatter ]] || ! "$formatter" --version | grep -q 'version 14'; then
  echo "format: clang-format 14 is not installed (package clang-format-14)" >&2
  exit 1
fi

sources_of_kind() { # a regular expression for the end of the path
  # Files of other projects have their own headers.
  python3 "$tools/source_files.py" . | grep -zE "$1" | grep -zvE "\.min\.js$" || true
}
mapfile -d '' -t cxx < <(sources_of_kind '\.(h|cc|cu|cuh)$')
mapfile -d '' -t sources < <(
  sources_of_kind '(\.(h|cc|cu|cuh|c|def|proto|py|sh|cmake|js|css|html)|(^|/)CMakeLists\.txt|^run|^test|^\.ci/run)$')

if (( fix )); then
  printf '%s\0' "${cxx[@]}" | xargs -0r -n 40 "$formatter" -i
fi
problems=$(mktemp)
trap 'rm -f "$problems"' EXIT
if (( ${#cxx[@]} > 0 )); then
  # One line a file: the formatter itself names every place.
  printf '%s\0' "${cxx[@]}" | xargs -0 -n 40 -P 2 "$formatter" --dry-run 2>&1 |
    sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: warning: code should be clang-formatted.*/\1: not formatted/p' |
    sort -u >>"$problems" || true
fi
for file in "${sources[@]}"; do
  header=$(head -n 4 "$file")
  if [[ $header != *"SPDX-FileCopyrightText: The Millrace Authors"* ||
        $header != *"SPDX-License-Identifier: Apache-2.0"* ]]; then
    echo "$file: no licence header in the first four lines" >>"$problems"
  fi
done
cat "$problems"
count=$(wc -l <"$problems")
echo "format: ${#cxx[@]} C++ files, ${#sources[@]} sources, $count problems"
(( count == 0 ))
