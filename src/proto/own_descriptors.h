// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Included before the generated sources of messages, and nowhere else: makes them register here instead of in
// the pool of the whole process. So a program may contain the same messages, and share the protobuf library.
// docs/decisions/0013-messages-in-a-pool-of-their-own.md
#pragma once

#include <google/protobuf/generated_message_reflection.h>
#include <google/protobuf/stubs/common.h>

// The layout of the tables is internal to protobuf: with other versions the messages register as usual.
#if GOOGLE_PROTOBUF_VERSION >= 3021000 && GOOGLE_PROTOBUF_VERSION < 3022000

namespace google::protobuf::internal {

// One file of messages; static, so that the list of all needs no memory.
struct MillraceFile {
  explicit MillraceFile(const DescriptorTable* t);
  const DescriptorTable* const table;
  const MillraceFile* const next;
};

// Initialises the data that the table of a file points to, once.
void MillraceAssign(const DescriptorTable* table);
Metadata MillraceAssign(const DescriptorTable* (*table)(), once_flag* once, const Metadata& metadata);

}  // namespace google::protobuf::internal

#define AddDescriptorsRunner MillraceFile
#define AssignDescriptors MillraceAssign

#endif
