// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Compares the registered ops with the table in tests/data/ops_signatures.txt, in both directions. Ops that
// TensorFlow does not have need no row there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>

#include "op/op_registry.h"
#include "op/op_table.h"
#include "ops/register.h"

namespace millrace {
namespace {

// The name of an op, and the lines of its signature.
using Table = std::map<std::string, std::string>;

std::string TypeText(const ArgDef& arg) {
  std::string type = !arg.type_attr.empty()        ? arg.type_attr
                     : !arg.type_list_attr.empty() ? arg.type_list_attr
                                                   : DataTypeName(arg.type);
  if (!arg.number_attr.empty()) type = arg.number_attr + "*" + type;
  return arg.is_ref ? "Ref(" + type + ")" : type;
}

std::string TypesText(const std::vector<DataType>& types) {
  std::string out;
  for (const DataType t : types) out += (out.empty() ? "" : ", ") + DataTypeName(t);
  return out;
}

std::string AllowedText(const AttrValue& allowed) {
  if (const auto* types = allowed.As<std::vector<DataType>>()) return "[" + TypesText(*types) + "]";
  return allowed.ToString();
}

std::string DefaultText(const AttrValue& value) {
  if (const auto* type = value.As<DataType>()) return DataTypeName(*type);
  if (const auto* shape = value.As<PartialShape>()) {
    return shape->unknown_rank() ? "shape(?)" : "shape" + shape->ToString();
  }
  return value.ToString();
}

std::string Signature(const OpDef& op) {
  std::string out;
  for (const ArgDef& arg : op.inputs) out += "  in   " + arg.name + ": " + TypeText(arg) + "\n";
  for (const ArgDef& arg : op.outputs) out += "  out  " + arg.name + ": " + TypeText(arg) + "\n";
  for (const AttrDef& attr : op.attrs) {
    out += "  attr " + attr.name + ": " + attr.type;
    if (attr.has_minimum) out += " >= " + std::to_string(attr.minimum);
    if (attr.allowed_values.IsSet()) out += " in " + AllowedText(attr.allowed_values);
    if (attr.default_value.IsSet()) out += " = " + DefaultText(attr.default_value);
    out += "\n";
  }
  std::string flags;
  if (op.is_commutative) flags += " is_commutative";
  if (op.is_aggregate) flags += " is_aggregate";
  if (op.is_stateful) flags += " is_stateful";
  if (op.allows_uninitialized_input) flags += " allows_uninitialized_input";
  if (op.deprecated_version > 0) flags += " deprecated@" + std::to_string(op.deprecated_version);
  if (!flags.empty()) out += "  flag" + flags + "\n";
  return out;
}

Table ReadTable() {
  Table table;
  std::ifstream file(MR_TEST_DATA "/ops_signatures.txt");
  std::string line;
  std::string* current = nullptr;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] != ' ') {
      current = &table[line];
    } else if (current != nullptr) {
      *current += line + "\n";
    }
  }
  return table;
}

// All ops of TensorFlow 1.15 with a Python wrapper.
std::set<std::string> OpsOfTensorFlow() {
  std::set<std::string> ops;
  std::ifstream file(MR_TEST_DATA "/../../src/python/tables/op_names.txt");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.empty() && line[0] != '#') ops.insert(line.substr(0, line.find(' ')));
  }
  return ops;
}

class SignaturesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Status status = RegisterAllOps(registry_);
    ASSERT_TRUE(status.ok()) << status;
    table_ = ReadTable();
    ASSERT_GT(table_.size(), 100u) << "tests/data/ops_signatures.txt is missing";
  }

  OpRegistry registry_;
  Table table_;
};

TEST_F(SignaturesTest, EveryRegisteredOpOfTensorFlowIsAsInTheTable) {
  const std::set<std::string> of_tensorflow = OpsOfTensorFlow();
  ASSERT_GT(of_tensorflow.size(), 1000u) << "src/python/tables/op_names.txt is missing";
  for (const OpRegistration* op : registry_.All()) {
    const auto row = table_.find(op->def.name);
    if (row == table_.end()) {
      EXPECT_FALSE(of_tensorflow.contains(op->def.name)) << op->def.name << " is not in the table";
    } else {
      EXPECT_EQ(Signature(op->def), row->second) << op->def.name;
    }
  }
}

TEST_F(SignaturesTest, EveryOpOfTheTableIsRegistered) {
  for (const auto& [name, signature] : table_) {
    EXPECT_TRUE(registry_.LookUp(name).ok()) << name;
  }
}

TEST_F(SignaturesTest, OtherOpsOfTensorFlowAreDeclared) {
  EXPECT_GT(registry_.Declared().size(), 50u);
  const auto dataset = registry_.LookUp("TFRecordDataset");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(Signature((*dataset)->def),
            "  in   filenames: string\n  in   compression_type: string\n  in   buffer_size: int64\n"
            "  out  handle: variant\n  flag is_stateful\n");
  for (const OpRegistration* op : registry_.Declared()) {
    EXPECT_FALSE(op->def.deprecated_version > 0 && op->def.deprecated_explanation.empty()) << op->def.name;
  }
}

TEST_F(SignaturesTest, DeclarationsOfRegisteredOpsAreGone) {
  const auto table = ParseOpTable(
#include "ops/declared_ops.def"
  );
  ASSERT_TRUE(table.ok()) << table.status();
  for (const OpRegistration& op : *table) EXPECT_FALSE(table_.contains(op.def.name)) << op.def.name;
}

TEST_F(SignaturesTest, RegisteringAllOpsTwiceIsFine) {
  const size_t before = registry_.All().size();
  EXPECT_EQ(RegisterAllOps(registry_), Status::Ok());
  EXPECT_EQ(registry_.All().size(), before);
}

TEST_F(SignaturesTest, EveryOpHasASummary) {
  for (const OpRegistration* op : registry_.All()) {
    const std::string& summary = op->def.summary;
    EXPECT_TRUE(summary.ends_with('.') && summary.size() > 5 && summary.find('\n') == std::string::npos)
        << op->def.name << ": '" << summary << "'";
  }
}

TEST_F(SignaturesTest, EveryOpHasAShapeFunction) {
  for (const OpRegistration* op : registry_.All()) EXPECT_NE(op->shape_fn, nullptr) << op->def.name;
}

TEST_F(SignaturesTest, TraitsAgreeWithSignatures) {
  for (const OpRegistration* op : registry_.All()) {
    const OpTraits& traits = op->traits;
    const std::string& name = op->def.name;
    bool takes_ref = false;
    for (const ArgDef& arg : op->def.inputs) takes_ref = takes_ref || arg.is_ref;
    // Not stateful in TensorFlow, although they use the process, files or other steps, or may, like the body
    // of a For.
    static const std::set<std::string> kUnflagged = {"Abort",   "Batch",         "BatchFunction",
                                                     "For",     "MatchingFiles", "ReadFile",
                                                     "Unbatch", "UnbatchGrad",   "WriteFile"};
    // Tensor arrays with names, which are not marked either.
    const bool array_by_name = name.starts_with("TensorArray") && name.ends_with("V2");
    if (traits.has_side_effects && !takes_ref && !kUnflagged.contains(name) && !array_by_name) {
      EXPECT_TRUE(op->def.is_stateful) << name;
    }
    if (traits.generator && !op->def.is_stateful) {
      EXPECT_TRUE(op->def.inputs.empty()) << name;
    }
    if (traits.aliasing || traits.elementwise) {
      EXPECT_FALSE(op->def.inputs.empty()) << name;
    }
    if (traits.is_send) {
      EXPECT_TRUE(op->def.outputs.empty()) << name;
    }
    if (traits.is_recv) {
      EXPECT_TRUE(op->def.inputs.empty()) << name;
    }
    if (traits.is_variable) {
      EXPECT_TRUE(op->def.is_stateful && op->def.inputs.empty()) << name;
    }
    if (op->def.outputs.empty() && op->def.is_stateful) {
      EXPECT_TRUE(traits.has_side_effects) << name;
    }
  }
}

}  // namespace
}  // namespace millrace
