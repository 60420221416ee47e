// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/env.h"
#include "io/input_stream.h"
#include "kernels/cpu/io/reader.h"

// The kinds of readers: the records that each finds in a work unit.
namespace millrace {

// The unit of work itself, as key and as value.
WorkOpener IdentityWork();
// The contents of the file.
WorkOpener WholeFileWork(Env& env);
// The lines of the file after the first few, without their ends; keys are "file:line", counted from 1.
WorkOpener TextLineWork(Env& env, int64_t skip_header_lines);
// The records of a TFRecord file; keys are "file:offset".
WorkOpener RecordWork(Env& env, io::Compression compression);

// The entries of an LMDB database, with their keys.
WorkOpener LmdbWork(Env& env);

// Records of one length between a header and a footer of the file, each `hop_bytes` after the previous one
// (0: the length); keys are "file:record", counted from 0.
struct FixedLength {
  uint64_t header_bytes = 0;
  uint64_t record_bytes = 0;  // at least 1
  uint64_t footer_bytes = 0;
  uint64_t hop_bytes = 0;
  io::Compression compression = io::Compression::kNone;  // sizes are those after decompression
};
WorkOpener FixedLengthWork(Env& env, const FixedLength& format);

}  // namespace millrace
