// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Tables from keys to values.
#include <string>

#include "ops/data_flow/data_flow.h"
#include "ops/family.h"

namespace millrace::ops {
namespace {

Status InitializeShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckHandleShape(c, 0));
  MR_ASSIGN_OR_RETURN(const ShapeHandle keys, c.WithRank(c.input(1), 1));
  return c.Merge(keys, c.input(2)).status();
}

Status FromFileShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckHandleShape(c, 0));
  return c.WithRank(c.input(1), 0).status();
}

Status FindShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRankAtMost(c.input(2), 1).status());
  return AccessShape(c);
}

OpBuilder TableNode(const std::string& name, bool resource) {
  OpBuilder op = HandleNode(name, "table_handle", resource)
                     .Attr("container: string = ''")
                     .Attr("shared_name: string = ''")
                     .Attr("use_node_name_sharing: bool = false")
                     .Attr("key_dtype: type")
                     .Attr("value_dtype: type");
  const bool dense = name.starts_with("MutableDense");
  if (dense || name.starts_with("MutableHashTableOfTensors")) op.Attr("value_shape: shape = {}");
  if (dense) {
    op.Input("empty_key: key_dtype");
    if (resource) op.Input("deleted_key: key_dtype");
    op.Attr("initial_num_buckets: int = 131072")
        .Attr("max_load_factor: float = 0.8")
        .Traits({.has_side_effects = true});
  }
  return op;
}

std::vector<OpBuilder> TableOps(bool resource) {
  const std::string v2 = resource ? "V2" : "";
  const auto access = [&](const std::string& name) {
    return HandleAccess(WithSuffix(name, v2), "table_handle", resource);
  };
  const auto entries = [&](const std::string& name, const char* key, const char* value) {
    return access(name)
        .Input(StrCat("keys: ", key))
        .Input(StrCat("values: ", value))
        .Attr(StrCat(key, ": type"))
        .Attr(StrCat(value, ": type"));
  };
  std::vector<OpBuilder> ops = {
      TableNode(WithSuffix("HashTable: A lookup table that is initialized once.", v2), resource),
      TableNode(WithSuffix("MutableHashTable: A mutable lookup table.", v2), resource),
      TableNode(WithSuffix("MutableHashTableOfTensors: A mutable lookup table whose values are vectors.", v2),
                resource),
      TableNode(
          WithSuffix("MutableDenseHashTable: A mutable lookup table with a key that marks empty slots.", v2),
          resource),
      access("LookupTableFind: The values of keys in a table; a default for missing keys.")
          .Input("keys: Tin")
          .Input("default_value: Tout")
          .Output("values: Tout")
          .Attr("Tin: type")
          .Attr("Tout: type")
          .Shape(FindShape),
      entries("LookupTableInsert: Inserts keys and values into a table.", "Tin", "Tout").Shape(AccessShape),
      entries("LookupTableImport: Replaces the contents of a table.", "Tin", "Tout").Shape(AccessShape),
      access("LookupTableSize: The number of keys in a table.")
          .Output("size: int64")
          .Shape(AccessScalarShape),
      access("LookupTableExport: All keys and values of a table.")
          .Output("keys: Tkeys")
          .Output("values: Tvalues")
          .Attr("Tkeys: type")
          .Attr("Tvalues: type")
          .Shape(AccessShape),
      entries("InitializeTable: Initializes a table from keys and values.", "Tkey", "Tval")
          .Shape(InitializeShape),
      access("InitializeTableFromTextFile: Initializes a table from the lines of a file.")
          .Input("filename: string")
          .Attr("key_index: int >= -2")
          .Attr("value_index: int >= -2")
          .Attr("vocab_size: int >= -1 = -1")
          .Attr("delimiter: string = '\\t'")
          .Shape(FromFileShape),
  };
  if (resource) {
    ops.push_back(access("LookupTableRemove: Removes keys from a table.")
                      .Input("keys: Tin")
                      .Attr("Tin: type")
                      .Shape(AccessShape));
  }
  return ops;
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterLookupOps(OpRegistry& registry) {
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::NotDifferentiable(ops::TableOps(false))));
  return ops::RegisterEach(registry, ops::NotDifferentiable(ops::TableOps(true)));
}

}  // namespace millrace
