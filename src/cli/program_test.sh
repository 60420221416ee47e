#!/bin/sh
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# program_test.sh PROGRAM: what the program prints and exits with when a file is bad.
set -u
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "program_test: $1"; exit 1; }

printf '\012\177' > "$folder/bad.pb"
out=$("$program" trace "$folder/bad.pb" --json 2> "$folder/err")
[ $? -eq 1 ] || fail "a bad file must exit with 1"
case $out in
  '{"error":{"code":"Data loss","message":"'*'"}}') ;;
  *) fail "not a JSON error: $out" ;;
esac
[ ! -e "$folder/bad.html" ] || fail "a bad file left a page"
"$program" trace "$folder/none.pb" > "$folder/out" 2> "$folder/err" && fail "a missing file must fail"
grep -q none.pb "$folder/err" || fail "the error names no file"
"$program" trace > /dev/null 2>&1 && fail "no file at all must fail"

# One event, as a RunMetadata of one node named "x" with a duration of 7 us.
printf '\012\013\012\011\022\007\012\001x\020\001\050\007' > "$folder/a.b.pb"
out=$("$program" trace "$folder/a.b.pb" --json) || fail "a good file must succeed"
case $out in
  '{"source":"a.b.pb","events_count":1,"length_ns":7000,'*) ;;
  *) fail "unexpected figures: $out" ;;
esac
[ -s "$folder/a.b.html" ] || fail "no page beside the input"
"$program" trace "$folder/a.b.pb" -o "$folder/a.b.pb" > /dev/null 2>&1 && fail "the input would be replaced"
echo "program_test: passed"
