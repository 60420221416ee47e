// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs graphs on NPUs, and compares the results with numbers calculated by hand.
#include <cstdio>
#include <string>
#include <vector>

#include "millrace/client_session.h"
#include "millrace/control_flow.h"
#include "millrace/ops.h"
#include "npu.h"

namespace mr = millrace;
namespace ops = millrace::ops;

namespace {

bool failed = false;

void Check(bool good, const char* what, const std::string& why = {}) {
  if (good) return;
  std::fprintf(stderr, "device_library: %s %s\n", what, why.c_str());
  failed = true;
}

mr::SessionOptions WithNpus(int count) {
  mr::SessionOptions options;
  options.device_count["NPU"] = count;
  return options;
}

void ExpectRun(const mr::ClientSession& session, const mr::ClientSession::Feeds& feeds,
               const mr::Output& fetch, const std::vector<float>& expected, const char* what) {
  std::vector<mr::Tensor> out;
  const mr::Status status = session.Run(feeds, {fetch}, &out);
  Check(status.ok(), what, status.ToString());
  if (!status.ok()) return;
  const auto values = out[0].flat<float>();
  Check(std::vector<float>(values.begin(), values.end()) == expected, what, out[0].ToString());
}

// The layer runs on the device because of its priority; Neg, which has no kernel there, on the CPU.
void TestPlacementByPriority() {
  const mr::Scope scope = mr::Scope::NewRootScope();
  const mr::Output x = ops::Placeholder(scope, mr::DataType::kFloat);
  const mr::Output w = ops::Const(scope, {{1.f, -1.f}, {2.f, 3.f}});
  const mr::Output y = ops::Neg(scope, ops::Relu(scope, ops::MatMul(scope, x, w)));
  const mr::ClientSession session(scope, WithNpus(1));
  const int64_t before = npu::NumKernelsRun();
  ExpectRun(session, {{x, {{1.f, 2.f}, {3.f, -4.f}}}}, y, {-5, -5, 0, 0}, "a layer");
  Check(npu::NumKernelsRun() == before + 2, "two kernels run on the device");
}

// A variable in the memory of one device; a node on another one reads it.
void TestTwoDevices() {
  const mr::Scope scope = mr::Scope::NewRootScope();
  const mr::Scope first = scope.WithDevice("/device:NPU:0"), second = scope.WithDevice("/device:NPU:1");
  const mr::Output v = ops::VariableV2(first, mr::TensorShape({1, 1}), mr::DataType::kFloat);
  const mr::Output set = ops::Assign(first, v, ops::Const(first, {{3.f}}));
  const mr::Output square = ops::MatMul(second, v, v);
  const mr::ClientSession session(scope, WithNpus(2));
  ExpectRun(session, {}, set, {3}, "an assignment");
  ExpectRun(session, {}, square, {9}, "a copy between devices");
}

// x is doubled while it is below 100.
void TestLoop() {
  const mr::Scope scope = mr::Scope::NewRootScope();
  const mr::Scope device = scope.WithDevice("/device:NPU:0");
  const mr::Output x = ops::Placeholder(scope, mr::DataType::kFloat);
  const mr::Output two = ops::Const(device, {{2.f}});
  const std::vector<mr::Output> results = mr::While(
      scope, {x},
      [](const mr::Scope& s, const std::vector<mr::Output>& in) {
        return ops::Less(s, ops::Squeeze(s, in[0]), 100.f);
      },
      [&](const mr::Scope& s, const std::vector<mr::Output>& in) {
        return std::vector<mr::Output>{ops::MatMul(s.WithDevice("/device:NPU:0"), in[0], two)};
      });
  Check(scope.status().ok(), "a loop is made", scope.status().ToString());
  if (!scope.status().ok()) return;
  ExpectRun(mr::ClientSession(scope, WithNpus(1)), {{x, {{3.f}}}}, results[0], {192}, "a loop");
}

void TestSoftPlacement() {
  const mr::Scope scope = mr::Scope::NewRootScope();
  const mr::Output x = ops::Placeholder(scope, mr::DataType::kFloat);
  const mr::Output y = ops::Neg(scope.WithDevice("/device:NPU:0"), x);
  std::vector<mr::Tensor> out;
  const mr::Status status = mr::ClientSession(scope, WithNpus(1)).Run({{x, 2.f}}, {y}, &out);
  Check(status.ToString().find("no supported kernel for NPU devices") != std::string::npos, "an error",
        status.ToString());
  mr::SessionOptions soft = WithNpus(1);
  soft.allow_soft_placement = true;
  ExpectRun(mr::ClientSession(scope, soft), {{x, 2.f}}, y, {-2}, "soft placement");
}

}  // namespace

int main() {
  const mr::Status status = npu::RegisterNpu();
  Check(status.ok(), "registration", status.ToString());
  TestPlacementByPriority();
  TestTwoDevices();
  TestLoop();
  TestSoftPlacement();
  return failed ? 1 : 0;
}
