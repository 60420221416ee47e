// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/function_def_builder.h"
#include "op/attr_codec.h"
#include "tests/session/state_testing.h"

namespace millrace {

// The type of a dataset's elements: usually one number.
struct ElementType {
  std::vector<DataType> types = {DataType::kInt64};
  std::vector<PartialShape> shapes = {PartialShape({})};
};

// Builds graphs of datasets, node by node, and reads their iterators.
class PipelineTest : public StateTest {
 protected:
  using Type = ElementType;
  static Type Scalars(DataType t) { return {{t}, {PartialShape({})}}; }
  static Type Vectors(DataType t) { return {{t}, {PartialShape({-1})}}; }
  static NameAttrList Fn(std::string name) { return {std::move(name), std::make_shared<const AttrMap>()}; }

  std::string Int(int64_t value) { return Constant(Tensor::Scalar(value)); }
  std::string Bool(bool value) { return Constant(Tensor::Scalar(value)); }
  std::string Text(const std::string& value) { return Constant(Tensor::Scalar(value)); }
  std::string Constant(const Tensor& value) {
    std::string name = "const" + std::to_string(next_++);
    graph_.Const(name, value);
    return name;
  }
  // Adds a node of `op` that describes elements of `type`; returns its name.
  std::string Data(const std::string& op, const std::vector<std::string>& inputs, AttrMap attrs = {},
                   const Type& type = {}, const char* types_attr = "output_types") {
    std::string name = op + std::to_string(next_++);
    attrs.Set(types_attr, type.types);
    attrs.Set("output_shapes", type.shapes);
    graph_.Node(name, op, inputs, attrs);
    return name;
  }
  // The same without types.
  std::string Plain(const std::string& op, const std::vector<std::string>& inputs,
                    const AttrMap& attrs = {}) {
    std::string name = op + std::to_string(next_++);
    graph_.Node(name, op, inputs, attrs);
    return name;
  }
  std::string Range(int64_t stop) { return Data("RangeDataset", {Int(0), Int(stop), Int(1)}); }
  // Rows of the tensors.
  std::string Slices(const std::vector<Tensor>& components) {
    std::vector<std::string> inputs;
    Type type{{}, {}};
    for (const Tensor& t : components) {
      inputs.push_back(Constant(t));
      type.types.push_back(t.dtype());
      std::vector<int64_t> row(t.shape().dims().begin() + 1, t.shape().dims().end());
      type.shapes.push_back(PartialShape(std::move(row)));
    }
    return Data("TensorSliceDataset", inputs, {}, type, "Toutput_types");
  }
  std::string Map(const std::string& input, const std::string& f, const Type& type = {}) {
    return Data("MapDataset", {input}, {{"f", Fn(f)}, {"Targuments", std::vector<DataType>{}}}, type);
  }
  std::string Batch(const std::string& input, int64_t size, bool drop = false) {
    return Data("BatchDatasetV2", {input, Int(size), Bool(drop)}, {}, Vectors(DataType::kInt64));
  }

  // y = x + n, of int64.
  void AddN(const std::string& name, int64_t n) {
    graph_.Function(FunctionBuilder(name)
                        .Arg("x: int64")
                        .Ret("y: int64")
                        .Node("n", "Const", {}, {{"dtype", DataType::kInt64}, {"value", Tensor::Scalar(n)}})
                        .Node("sum", "Add", {"x", "n:output"}, {{"T", DataType::kInt64}})
                        .Return("y", "sum:z"));
  }

  // Adds an iterator with "<name>", "<name>/init" and "<name>/next".
  std::string MakeIterator(const std::string& dataset, const Type& type = {},
                           const std::string& name = "it") {
    const AttrMap attrs = {{"output_types", type.types}, {"output_shapes", type.shapes}};
    AttrMap named = attrs;
    named.Set("shared_name", "");
    named.Set("container", "");
    graph_.Node(name, "IteratorV2", {}, named);
    graph_.Node(name + "/init", "MakeIterator", {dataset, name}, {});
    graph_.Node(name + "/next", "IteratorGetNext", {name}, attrs);
    return name;
  }
  // Elements until the end, at most `limit`; components are fetched as "it/next:i".
  std::vector<std::vector<Tensor>> Drain(const Type& type = {}, size_t limit = 10000,
                                         const std::string& name = "it") {
    std::vector<std::vector<Tensor>> elements;
    std::vector<std::string> fetches;
    for (size_t i = 0; i < type.types.size(); ++i) fetches.push_back(name + "/next:" + std::to_string(i));
    while (elements.size() < limit) {
      auto element = Get(fetches);
      if (!element.ok()) {
        last_ = element.status();
        break;
      }
      elements.push_back(*std::move(element));
    }
    return elements;
  }
  // All elements of a dataset from its start, and OK unless something other than the end stopped it.
  std::vector<std::vector<Tensor>> All(const std::string& dataset, const Type& type = {},
                                       size_t limit = 10000) {
    MakeIterator(dataset, type);
    const Status made = Do("it/init");
    EXPECT_TRUE(made.ok()) << made;
    if (!made.ok()) return {};
    auto elements = Drain(type, limit);
    if (elements.size() < limit) {
      EXPECT_TRUE(errors::IsOutOfRange(last_)) << last_;
      EXPECT_NE(last_.message().find("End of sequence"), std::string::npos) << last_;
    }
    return elements;
  }
  template <typename T = int64_t>
  static std::vector<T> Values(const std::vector<std::vector<Tensor>>& elements, size_t component = 0) {
    std::vector<T> values;
    for (const auto& element : elements) {
      for (const T& v : element[component].flat<T>()) values.push_back(v);
    }
    return values;
  }
  std::vector<int64_t> Ints(const std::string& dataset, size_t limit = 10000) {
    return Values(All(dataset, {}, limit));
  }
  // The error of creating an iterator of the dataset, or of reading it.
  Status Error(const std::string& dataset, const Type& type = {}) {
    MakeIterator(dataset, type);
    MR_RETURN_IF_ERROR(Do("it/init"));
    return Get({"it/next"}).status();
  }

  Status last_;  // the status with which Drain ended

 private:
  int next_ = 0;
};

}  // namespace millrace
