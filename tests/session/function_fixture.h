// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The fixture of the tests of functions.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "op/attr_codec.h"
#include "session/direct_session.h"
#include "tests/session/def_builder.h"

namespace millrace {

inline Tensor F(float v) { return Tensor::Scalar(v); }
inline Tensor I(int32_t v) { return Tensor::Scalar(v); }

inline const AttrMap kFloat = {{"T", DataType::kFloat}};
inline const AttrMap kInt = {{"T", DataType::kInt32}};

inline NameAttrList Fn(std::string name, AttrMap attrs = {}) {
  return {std::move(name), std::make_shared<const AttrMap>(std::move(attrs))};
}
inline AttrMap ConstOf(const Tensor& value) { return {{"dtype", value.dtype()}, {"value", value}}; }
inline std::vector<DataType> Types(size_t n, DataType t = DataType::kFloat) {
  return std::vector<DataType>(n, t);
}

// The configuration of a session; every test runs in each of them.
struct FunctionSetup {
  const char* name;
  int threads;
  int cpus;
};
inline void PrintTo(const FunctionSetup& s, std::ostream* os) { *os << s.name; }

class FunctionTest : public ::testing::TestWithParam<FunctionSetup> {
 protected:
  void Make() {
    SessionOptions o;
    o.inter_op_parallelism_threads = GetParam().threads;
    o.intra_op_parallelism_threads = GetParam().threads;
    o.device_count["CPU"] = GetParam().cpus;
    session_ = SessionWith(g_, o);
    ASSERT_NE(session_, nullptr);
  }
  void Node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
            const AttrMap& attrs = {}) {
    AttrMapToProto(attrs, g_.Add(name, op, inputs)->mutable_attr());
  }
  // Adds a call of `f` with `inputs`, all of one type, and one result.
  void Call(const std::string& name, const NameAttrList& f, const std::vector<std::string>& inputs,
            DataType type = DataType::kFloat, const char* op = "PartitionedCall") {
    Node(name, op, inputs, {{"f", f}, {"Tin", Types(inputs.size(), type)}, {"Tout", Types(1, type)}});
  }
  StatusOr<Tensor> Run(const Session::Feeds& feeds, const std::string& fetch) {
    std::vector<Tensor> out;
    MR_RETURN_IF_ERROR(session_->Run(feeds, {fetch}, {}, &out));
    return out[0];
  }
  template <typename T = float>
  T Value(const Session::Feeds& feeds, const std::string& fetch) {
    auto out = Run(feeds, fetch);
    EXPECT_TRUE(out.ok()) << out.status();
    return out.ok() ? out->scalar<T>() : T(-12345);
  }
  std::string Error(const Session::Feeds& feeds, const std::string& fetch) {
    auto out = Run(feeds, fetch);
    return out.ok() ? "OK" : out.status().message();
  }

  DefBuilder g_;
  std::unique_ptr<Session> session_;
};

inline FunctionBuilder Twice() {
  return FunctionBuilder("Twice")
      .Arg("x: T")
      .Ret("y: T")
      .Attr("T: {float, double, int32, complex64}")
      .Node("sum", "Add", {"x", "x"}, {{"T", "$T"}})
      .Return("y", "sum:z");
}

// while i < n: i, sum = i + 1, sum + i
inline void AddSumLoop(DefBuilder* g, const char* op = "StatelessWhile") {
  g->Function(FunctionBuilder("Under")
                  .Arg("i: int32")
                  .Arg("n: int32")
                  .Arg("sum: int32")
                  .Ret("go: bool")
                  .Node("less", "Less", {"i", "n"}, kInt)
                  .Return("go", "less:z"));
  g->Function(FunctionBuilder("AddUp")
                  .Arg("i: int32")
                  .Arg("n: int32")
                  .Arg("sum: int32")
                  .Ret("next: int32")
                  .Ret("same: int32")
                  .Ret("total: int32")
                  .Node("one", "Const", {}, ConstOf(I(1)))
                  .Node("inc", "Add", {"i", "one:output"}, kInt)
                  .Node("add", "Add", {"sum", "i"}, kInt)
                  .Return("next", "inc:z")
                  .Return("same", "n")
                  .Return("total", "add:z"));
  g->Placeholder("n", tensorflow::DT_INT32);
  g->Const("zero", I(0));
  AttrMapToProto({{"T", Types(3, DataType::kInt32)}, {"cond", Fn("Under")}, {"body", Fn("AddUp")}},
                 g->Add("loop", op, {"zero", "n", "zero"})->mutable_attr());
}

inline auto FunctionSetups() {
  return ::testing::Values(FunctionSetup{"OneThread", 1, 1}, FunctionSetup{"FourThreads", 4, 1},
                           FunctionSetup{"TwoCpus", 2, 2});
}

}  // namespace millrace
