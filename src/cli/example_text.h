// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/json_writer.h"

namespace millrace::cli {

// The kind of a record, as far as its bytes show.
enum class RecordKind { kBytes, kText, kExample, kSequenceExample };
RecordKind KindOfRecord(std::string_view record);
std::string_view RecordKindName(RecordKind kind);

// Lines, each indented by two spaces: a feature with its type, its number of values and the first `values` of
// them, or the start of the text or bytes.
std::string RecordText(std::string_view record, RecordKind kind, int64_t values);
// Fields of an object: "features" of an Example, "context" and "feature_lists" of a SequenceExample, or
// "bytes". At most `values` of a feature; "size" is their number.
void WriteRecordJson(std::string_view record, RecordKind kind, int64_t values, JsonWriter* json);

}  // namespace millrace::cli
