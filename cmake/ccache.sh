#!/bin/sh
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# ccache.sh CCACHE COMPILER ARGUMENTS...: compiles through ccache, precompiled headers included. Those have 100 MB, so a
# checksum is laid beside each, which ccache reads in its place: a hit takes 20 ms and not 270.
CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_ctime,include_file_mtime
CCACHE_PCH_EXTSUM=1
export CCACHE_SLOPPINESS CCACHE_PCH_EXTSUM
"$@" || exit
while [ $# -gt 1 ]; do
  case $1$2 in
    -o*.gch) sha1sum <"$2" >"$2.sum" ;;
  esac
  shift
done
