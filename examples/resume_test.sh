#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# resume_test.sh PROGRAM FOLDER MILLRACE KILLS RESULT FEED [SEED]: runs the training program once as it is. Then it
# kills it at KILLS moments that SEED chooses and starts it again each time; when a run ends before its kill, its
# result is compared and a new training begins. Event files have to be readable after each kill. RESULT is a pattern
# for the last line of output. At the end the exported model runs with FEED.
set -euo pipefail
program=$1 folder=$2 millrace=$3 kills=$4 pattern=$5 feed=$6
RANDOM=${7:-1}
fail() { echo "$1" >&2; tail -n 5 "$folder"/*/log >&2; exit 1; }

rm -rf "$folder"
mkdir -p "$folder/whole" "$folder/killed"
begin=$(date +%s%N)
expected=$("$program" "$folder/whole" 2>"$folder/whole/log" | tail -n 1) || fail "the program failed"
span=$((($(date +%s%N) - begin) / 1000000))  # milliseconds
echo "without interruption: $expected ($span ms)"
# shellcheck disable=SC2053
[[ $expected == $pattern ]] || fail "the result is not '$pattern'"

check() {  # what a run ends with
  result=$(tail -n 1 "$folder/killed/out")
  [ "$result" = "$expected" ] || fail "another result: $result"
}
start() { exec "$program" "$folder/killed" >"$folder/killed/out" 2>>"$folder/killed/log"; }
# Reads event files without the library's help.
reader="$(dirname "$0")/../tests/python/summary/event_reader.py"
killed=0 ended=0
while [ "$killed" -lt "$kills" ]; do
  start &
  pid=$!
  sleep "$(awk -v r=$RANDOM -v span="$span" 'BEGIN { printf "%.3f", (0.02 + r / 32768 * 0.6) * span / 1000 }')"
  kill -9 "$pid" 2>/dev/null || true
  status=0
  wait "$pid" 2>/dev/null || status=$?
  case $status in
    137) killed=$((killed + 1)) ;;
    0)
      check && ended=$((ended + 1)) && rm -rf "$folder/killed" && mkdir -p "$folder/killed"
      span=$((span * 3 / 4 + 1))  # the first run may have been slower than others, beside other work
      ;;
    *) fail "it ends with $status after $killed kills" ;;
  esac
  if compgen -G "$folder/killed/run/events.*" >/dev/null; then
    "$millrace" events ls "$folder/killed/run" >/dev/null || fail "events cannot be read after $killed kills"
    python3 "$reader" "$folder/killed/run" >/dev/null || fail "event files are not as they should be after $killed kills"
  fi
done
(start) || fail "it does not continue after $killed kills"
check
echo "killed $killed times, $((ended + 1)) trainings ended: $result"
for run in whole killed; do "$millrace" run "$folder/$run/export" --feed "$feed" | grep -v ' ms' >"$folder/$run/served"; done
cat "$folder/killed/served"
[ -s "$folder/killed/served" ] && cmp "$folder/whole/served" "$folder/killed/served"
