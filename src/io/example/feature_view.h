// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/function.h"
#include "millrace/dtype.h"

// tensorflow.Feature, Features and FeatureList, read in place.
namespace millrace::io {

// The values of a Feature. Lists may be packed or not, in any mixture; as in protobuf the last kind of list
// wins, and lists of one kind that follow each other are one.
struct FeatureView {
  std::string_view bytes;               // from the first list that counts to the end of the Feature
  DataType dtype = DataType::kInvalid;  // kString, kFloat, kInt64; kInvalid: no list at all
  int64_t count = 0;
};

// False when the bytes are no Feature. What this accepts the functions below can copy, except for int64 lists
// with a number of more than ten bytes.
bool ReadFeature(std::string_view feature, FeatureView* view);

// Copies the values. REQUIRES: the dtype fits, room for `count`.
bool CopyFeature(const FeatureView& view, float* to);
bool CopyFeature(const FeatureView& view, int64_t* to);
bool CopyFeature(const FeatureView& view, std::string* to);

// Copies packed numbers. False when there are not exactly `n`, or one is broken; room for `n` is enough.
bool CopyPacked(std::string_view packed, int64_t n, int64_t* to);

// Calls visit(key, value) for the entries of the map that is field 1 of a message: Features and
// FeatureLists. False when the bytes are broken or visit says so.
using MapVisitor = FunctionRef<bool(std::string_view key, std::string_view value)>;
bool VisitMap(std::string_view message, MapVisitor visit);
// The same for every occurrence of the field `number`, a Features or FeatureLists, of a message.
bool VisitMapsOf(std::string_view message, uint32_t number, MapVisitor visit);
// Calls visit(feature) for the steps of a FeatureList.
bool VisitSteps(std::string_view feature_list, FunctionRef<bool(std::string_view feature)> visit);

}  // namespace millrace::io
