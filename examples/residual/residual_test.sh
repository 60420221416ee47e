#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# Trains at once, and with a kill after the first checkpoint: both end with the same weights. Usage: residual_test.sh PROGRAM DIR
set -euo pipefail
program=$1 dir=$2 steps=400
rm -rf "$dir"
mkdir -p "$dir/whole" "$dir/killed/run"
whole=$("$program" "$dir/whole" $steps)
echo "$whole"
cp -r "$dir/whole/digits" "$dir/killed/"

"$program" "$dir/killed" $steps >/dev/null &
pid=$!
for _ in $(seq 3000); do
  if [ -e "$dir/killed/run/model.ckpt-40.index" ] || ! kill -0 $pid 2>/dev/null; then break; fi
  sleep 0.02
done
kill -9 $pid 2>/dev/null || true
wait $pid 2>/dev/null || true
head -1 "$dir/killed/run/checkpoint"  # the checkpoint from which it continues
resumed=$("$program" "$dir/killed" $steps)
echo "$resumed"
[ "$whole" = "$resumed" ] || { echo "residual_test: the results differ" >&2; exit 1; }
[ -e "$dir/killed/export/saved_model.pb" ]
