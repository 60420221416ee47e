#!/bin/bash
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
#SBATCH --job-name=millrace
#SBATCH --ntasks=3
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
# One parameter server and two workers. All processes run the same command; --slurm reads from the environment of the step
# which task each of them is, and where the others are. Submit with: sbatch slurm.sh [PROGRAM ARGUMENTS…]
set -euo pipefail

# A secret of this job, in a folder that all nodes can access and no other user can read.
token=${MILLRACE_TOKEN_FILE:-$HOME/.millrace_token_$SLURM_JOB_ID}
if [[ ! -e $token ]]; then
  (umask 077 && od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$token")
  trap 'rm -f "$token"' EXIT
fi
export MILLRACE_TOKEN_FILE=$token

srun --kill-on-bad-exit=1 millrace server --slurm --cluster "${CLUSTER:-ps=1,worker=2}" \
  --first-port "${FIRST_PORT:-8888}" --listen 0.0.0.0 &
tasks=$!

# A client uses any task as the master of its session. Without a program the tasks run until the job ends.
if (($# > 0)); then
  "$@"
  kill "$tasks"
fi
wait "$tasks" || true
