// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "millrace/client_session.h"
#include "millrace/control_flow.h"
#include "millrace/gradients.h"
#include "millrace/ops.h"
#include "millrace/scope.h"
#include "tensor/testing.h"

namespace millrace {

using Outputs = std::vector<Output>;

// Builds a graph and runs it with a number of threads, the test's parameter.
class LoopTest : public ::testing::TestWithParam<int> {
 protected:
  // As the library's; a failure of the test, and unset results, if they can't be built.
  static Outputs While(const Scope& scope, const std::vector<millrace::Input>& vars, const LoopCondFn& cond,
                       const LoopBodyFn& body, const WhileOptions& options = {}) {
    Outputs out = millrace::While(scope, vars, cond, body, options);
    if (!scope.ok()) ADD_FAILURE() << scope.status();
    out.resize(vars.size());
    return out;
  }
  static Outputs Cond(const Scope& scope, const millrace::Input& pred, const BranchFn& then_fn,
                      const BranchFn& else_fn) {
    Outputs out = millrace::Cond(scope, pred, then_fn, else_fn);
    if (!scope.ok()) ADD_FAILURE() << scope.status();
    if (out.empty()) out.resize(2);
    return out;
  }
  static Tensor Vec(const std::vector<double>& values) { return Tensor::Vector<double>(values); }
  static Tensor Mat(const std::vector<double>& values, int64_t rows) {
    return Tensor::From<double>(values, TensorShape({rows, static_cast<int64_t>(values.size()) / rows}));
  }
  // A tensor to be fed, of known shape, which a loop variable must keep.
  Output Input(const char* name, DataType dtype = DataType::kDouble,
               const TensorShape& shape = TensorShape()) {
    if (shape.rank() > 0)
      return ops::Placeholder(scope_.WithOpName(name), dtype, ops::Placeholder::Shape(shape));
    const Output any = ops::Placeholder(scope_, dtype);
    return ops::Reshape(scope_.WithOpName(name), any, Tensor::Vector<int32_t>({}));
  }
  Output Input(const char* name, const TensorShape& shape) { return Input(name, DataType::kDouble, shape); }
  // The gradients of the sum of the ys; all must exist.
  Outputs Gradients(const Outputs& ys, const Outputs& xs) {
    Outputs grads;
    EXPECT_EQ(AddSymbolicGradients(scope_, ys, xs, &grads), Status());
    for (const Output& g : grads) EXPECT_TRUE(g.IsSet());
    return grads;
  }
  SessionOptions Options() const {
    SessionOptions options;
    options.inter_op_parallelism_threads = options.intra_op_parallelism_threads = GetParam();
    return options;
  }
  StatusOr<std::vector<Tensor>> TryRun(const ClientSession::Feeds& feeds, const Outputs& fetches) {
    MR_RETURN_IF_ERROR(scope_.status());
    ClientSession session(scope_, Options());
    std::vector<Tensor> out;
    MR_RETURN_IF_ERROR(session.Run(feeds, fetches, &out));
    return out;
  }
  std::vector<Tensor> Run(const ClientSession::Feeds& feeds, const Outputs& fetches) {
    auto out = TryRun(feeds, fetches);
    EXPECT_TRUE(out.ok()) << out.status();
    if (out.ok()) return *std::move(out);
    return std::vector<Tensor>(fetches.size(), Tensor::Scalar(0.0));
  }
  double RunScalar(const ClientSession::Feeds& feeds, const Output& fetch) {
    return Run(feeds, {fetch})[0].scalar<double>();
  }
  // Compares the gradients of a weighted sum of y with central differences, and then those of the first
  // gradient, up to the order `orders`.
  void CheckGradients(const Output& y, const std::vector<std::pair<Output, Tensor>>& at, int orders,
                      const ClientSession::Feeds& others = {});

  Scope scope_ = Scope::NewRootScope();
};

}  // namespace millrace
