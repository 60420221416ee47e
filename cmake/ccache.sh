#!/bin/sh
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# ccache.sh CCACHE COMPILER ARGUMENTS...: compiles through ccache. Precompiled headers are compiled anew in each folder,
# for they hold the times of the files that they were made of, and a copy from elsewhere lets a header be read twice. Beside
# each lies a checksum of what it says, without those times, which ccache reads in its place: objects are shared.
CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_ctime,include_file_mtime
CCACHE_PCH_EXTSUM=1
export CCACHE_SLOPPINESS CCACHE_PCH_EXTSUM
header=
for argument; do
  case $argument in *.gch) header=$argument ;; esac
done
if [ -z "$header" ]; then exec "$@"; fi
shift
"$@" || exit
# The same without the output and its list of files.
count=$#
while [ $count -gt 0 ]; do
  argument=$1
  shift
  count=$((count - 1))
  case $argument in
    -o | -MT | -MF | -MQ)
      shift
      count=$((count - 1))
      ;;
    -MD | -MMD | -c) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
{ printf '%s\n' "$@"; "$@" -E; } | sha1sum >"$header.sum"
