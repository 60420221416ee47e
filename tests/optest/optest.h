// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Rows of .optest files; README.md describes the format.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/status.h"
#include "op/attr_value.h"
#include "op/op_def.h"

namespace millrace::optest {

// One input or expected tensor.
struct Value {
  enum class Kind { kValue, kRef, kResource };
  Kind kind = Kind::kValue;
  Tensor tensor;
};

// One row with the type names filled in.
struct Row {
  std::string op;
  std::vector<std::pair<std::string, std::string>> attrs;  // name and text
  std::vector<Value> inputs;
  std::vector<Tensor> outputs;
  std::vector<Tensor> after;                                 // of the variables among the inputs
  std::optional<std::pair<std::string, std::string>> error;  // code and part of the message
  std::optional<std::pair<double, double>> tolerance;        // relative, absolute
};

// A name that represents types, as defined in a "types" line.
struct TypeBinding {
  std::string name;
  std::vector<DataType> types;
  bool is_group = false;  // types that the op doesn't support are skipped
};

// A row as written.
struct Line {
  int number = 0;
  std::string text;
  std::vector<TypeBinding> bindings;
};

// The rows of a file.
StatusOr<std::vector<Line>> ReadLines(const std::string& content);
// Parses `text` with each binding name replaced by the type of the same index.
StatusOr<Row> ParseRow(const std::string& text, const std::vector<std::pair<std::string, DataType>>& types);
// Parses the value of an attribute, using the op's definition.
StatusOr<AttrValue> ParseAttr(const OpDef& op, const std::string& name, const std::string& text,
                              const std::vector<std::pair<std::string, DataType>>& types);

}  // namespace millrace::optest
