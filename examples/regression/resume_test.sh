#!/bin/sh
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# resume_test.sh PROGRAM FOLDER [KILLS]: runs the program once as it is, then once killed at moments that nobody
# chose, and compares what the two say at the end.
set -eu
program=$1 folder=$2 kills=${3:-8}
rm -rf "$folder"
mkdir -p "$folder/whole" "$folder/killed"
expected=$("$program" "$folder/whole" 2>"$folder/whole/log" | tail -n 1)
case $expected in w*test*) ;; *) echo "no result: '$expected'" && tail -n 5 "$folder/whole/log" && exit 1 ;; esac
killed=0
while [ "$killed" -lt "$kills" ]; do
  "$program" "$folder/killed" >"$folder/killed/out" 2>>"$folder/killed/log" &
  pid=$!
  sleep "0.$(od -An -N1 -tu1 /dev/urandom | awk '{ printf "%02d", $1 % 60 + 5 }')"
  kill -9 "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
  killed=$((killed + 1))
done
result=$("$program" "$folder/killed" 2>>"$folder/killed/log" | tail -n 1)
echo "without interruption: $expected"
echo "killed $killed times:  $result"
[ "$result" = "$expected" ]
