// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "compile/all_ops_testing.h"
#include "compile/optimize/dataset_functions.h"
#include "graph/function_def_builder.h"
#include "graph/function_library.h"
#include "op/elementwise_kind.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

// The first type that the attribute allows, or its default.
AttrValue ValueFor(const AttrDef& attr) {
  if (attr.default_value.IsSet()) return attr.default_value;
  if (attr.type == "string") return std::string("s");
  if (attr.type == "int") return int64_t{2};
  if (const auto* types = attr.allowed_values.As<std::vector<DataType>>()) return types->front();
  return DataType::kFloat;
}

// Whether a function that consists of the op has a form for batches of rows of shape [2, 3]. `rows`: how many
// of its inputs are rows; the others are captured.
bool IsVectorized(const OpRegistration& op, size_t rows) {
  AttrMap attrs;
  for (const AttrDef& attr : op.def.attrs) attrs.Set(attr.name, ValueFor(attr));
  std::vector<DataType> inputs, outputs;
  EXPECT_EQ(InferArgTypes(op.def, attrs, &inputs, &outputs), Status()) << op.def.name;
  FunctionBuilder f("f");
  std::vector<std::string> names;
  for (size_t i = 0; i < inputs.size(); ++i) {
    names.push_back(StrCat("x", i));
    f.Arg(StrCat(names.back(), ": ", DataTypeName(inputs[i])));
  }
  f.Ret(StrCat("y: ", DataTypeName(outputs[0])));
  f.Node("n", op.def.name, names, attrs).Return("y", StrCat("n:", op.def.outputs[0].name));
  tensorflow::FunctionDef def;
  EXPECT_EQ(f.Build(&def), Status()) << op.def.name;
  Graph graph(AllOps());
  EXPECT_EQ(graph.functions().Add(def), Status()) << op.def.name;
  ElementFunction element{{"f", std::make_shared<const AttrMap>()}, {}};
  const size_t elements = std::min(rows, inputs.size());
  element.captured.assign(inputs.begin() + static_cast<std::ptrdiff_t>(elements), inputs.end());
  return VectorizeFunction(&graph, element, std::vector<PartialShape>(elements, PartialShape({2, 3})))
      .has_value();
}

TEST(DatasetVectorizeTest, EachElementwiseOpOfRowsOfOneShapeIsVectorized) {
  int found = 0;
  for (const OpRegistration* op : AllOps().All()) {
    if (ElementwiseKindOf(*op) == ElementwiseKind::kNone) continue;
    ++found;
    EXPECT_TRUE(IsVectorized(*op, 2)) << op->def.name;
  }
  EXPECT_GE(found, 110);
}

TEST(DatasetVectorizeTest, OpsWhoseInputsMustHaveOneShapeTakeNoCapturedTensor) {
  for (const char* name : {"TanhGrad", "ReluGrad", "AddN", "ApproximateEqual"}) {
    EXPECT_TRUE(IsVectorized(**AllOps().LookUp(name), 2)) << name;
    EXPECT_FALSE(IsVectorized(**AllOps().LookUp(name), 1)) << name;
  }
}

TEST(DatasetVectorizeTest, OtherOpsAreNotElementwise) {
  for (const char* name : {"Softmax", "EnsureShape", "PlaceholderWithDefault", "CheckNumerics"})
    EXPECT_FALSE(IsVectorized(**AllOps().LookUp(name), 1)) << name;
}

}  // namespace
}  // namespace millrace
