// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// A program outside of the repository that uses an installed Millrace: every public header, training a model,
// a session, errors. It reports failures on standard error and in its exit code.
#include <millrace/client_session.h>
#include <millrace/dtype.h>
#include <millrace/gradients.h>
#include <millrace/graph_def.h>
#include <millrace/op_library.h>
#include <millrace/ops.h>
#include <millrace/optimizers.h>
#include <millrace/output.h>
#include <millrace/ref.h>
#include <millrace/run_metadata.h>
#include <millrace/scope.h>
#include <millrace/session.h>
#include <millrace/shape.h>
#include <millrace/status.h>
#include <millrace/tensor.h>

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <iostream>

namespace errors = millrace::errors;
namespace ops = millrace::ops;
using millrace::AddSymbolicGradients;
using millrace::ClientSession;
using millrace::DataType;
using millrace::DeviceInfo;
using millrace::GradientDescentOptimizer;
using millrace::GraphVariable;
using millrace::NewSession;
using millrace::Operation;
using millrace::Output;
using millrace::RunMetadata;
using millrace::RunOptions;
using millrace::Scope;
using millrace::SessionOptions;
using millrace::Status;
using millrace::Tensor;

namespace {

Status Expect(bool condition, const char* what) { return condition ? Status::Ok() : errors::Internal(what); }

// Saves a graph, loads it from the file into a session, and runs it.
Status SaveAndLoad() {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DataType::kFloat);
  ops::Mul(root.WithOpName("y"), x, 2.f);
  const std::string file =
      (std::filesystem::temp_directory_path() / ("outside_" + std::to_string(getpid()) + ".pb")).string();
  MR_RETURN_IF_ERROR(millrace::SaveGraph(root, file));
  MR_ASSIGN_OR_RETURN(const auto session, millrace::LoadSession(file));
  std::filesystem::remove(file);
  std::vector<Tensor> values;
  MR_RETURN_IF_ERROR(session->Run({{"x", *Tensor::Of({{1.f, 2.f}})}}, {"y"}, {}, &values));
  return Expect(values[0].matrix<float>()(0, 1) == 4, "a loaded graph gives a wrong value");
}

// Finds w = 3 in y = w * x by gradient descent.
Status Train() {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DataType::kFloat);
  const GraphVariable w(root.WithOpName("w"), 0.f);
  const Output error = ops::Sub(root, ops::Mul(root, w, x), ops::Mul(root, 3.f, x));
  const Output loss = ops::Mean(root, ops::Square(root, error), 0);
  const Operation train = GradientDescentOptimizer(0.1f).Minimize(root, loss);
  std::vector<Output> gradient;
  MR_RETURN_IF_ERROR(AddSymbolicGradients(root, {loss}, {w}, &gradient));
  const Operation init = millrace::GlobalVariablesInitializer(root);
  MR_RETURN_IF_ERROR(root.status());

  const ClientSession session(root);
  const ClientSession::Feeds feeds{{x, {1.f, 2.f}}};
  std::vector<Tensor> values;
  MR_RETURN_IF_ERROR(session.Run({}, {}, {init}, nullptr));
  MR_RETURN_IF_ERROR(session.Run(feeds, {gradient[0]}, &values));
  MR_RETURN_IF_ERROR(Expect(values[0].scalar<float>() == -15.f, "the gradient at 0 is -2 * 3 * (1 + 4) / 2"));
  for (int step = 0; step < 50; ++step) MR_RETURN_IF_ERROR(session.Run(feeds, {}, {train}, nullptr));
  MR_RETURN_IF_ERROR(session.Run({w}, &values));
  return Expect(std::abs(values[0].scalar<float>() - 3.f) < 1e-4f, "w did not reach 3");
}

// A gradient function of this program, which reads an attribute of each type.
Status DefineGradient() {
  MR_RETURN_IF_ERROR(millrace::RegisterGradient("OutsideCast", [](millrace::GradientCall& call) -> Status {
    MR_ASSIGN_OR_RETURN(const DataType type, call.Attr<DataType>("SrcT"));
    MR_ASSIGN_OR_RETURN(const bool truncate, call.Attr<bool>("Truncate"));
    const bool others =
        call.Attr<int64_t>("none").ok() || call.Attr<float>("none").ok() ||
        call.Attr<std::string>("none").ok() || call.Attr<millrace::PartialShape>("none").ok() ||
        call.Attr<std::vector<int64_t>>("none").ok() || call.Attr<std::vector<float>>("none").ok() ||
        call.Attr<std::vector<std::string>>("none").ok();
    MR_RETURN_IF_ERROR(Expect(type == DataType::kFloat && !truncate && !others, "the attributes of Cast"));
    call.SetInputGrad(0, Output(ops::Cast(call.scope(), call.dense_grad(0), type)));
    return Status();
  }));
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DataType::kFloat);
  const Output y = ops::Cast(root, x, DataType::kDouble);
  MR_RETURN_IF_ERROR(millrace::OverrideGradient(y, "OutsideCast"));
  std::vector<Output> gradient;
  MR_RETURN_IF_ERROR(AddSymbolicGradients(root, {y}, {x}, &gradient));
  std::vector<Tensor> values;
  MR_RETURN_IF_ERROR(ClientSession(root).Run({{x, {1.f, 2.f}}}, {gradient[0]}, &values));
  return Expect(values[0].flat<float>()[1] == 1.f, "the gradient of a sum");
}

// An op and a kernel of a loaded library.
Status LoadOps(const std::string& library) {
  MR_RETURN_IF_ERROR(Expect(errors::IsNotFound(millrace::LoadLibrary("./no_such_library.so").status()),
                            "a missing library"));
  MR_RETURN_IF_ERROR(Expect(errors::IsNotFound(millrace::LoadLibrary("").status()), "no name"));
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> names, millrace::LoadLibrary(library));
  MR_RETURN_IF_ERROR(
      Expect(names == std::vector<std::string>{"UserNothing", "UserScale"}, "the ops of the library"));
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> again, millrace::LoadLibrary(library));
  MR_RETURN_IF_ERROR(Expect(again == names, "the library is loaded twice"));
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DataType::kFloat);
  millrace::OpMaker maker(root, "UserScale", {});
  maker.Add(x);
  maker.SetAttr("by", int64_t{7});
  maker.Finish();
  MR_RETURN_IF_ERROR(root.status());
  std::vector<Tensor> values;
  std::vector<Output> gradient;
  MR_RETURN_IF_ERROR(AddSymbolicGradients(root, {maker.output(0)}, {x}, &gradient));
  MR_RETURN_IF_ERROR(ClientSession(root).Run({{x, {6.f}}}, {maker.output(0), gradient[0]}, &values));
  MR_RETURN_IF_ERROR(Expect(values[0].flat<float>()[0] == 42.f, "6 * 7"));
  return Expect(values[1].flat<float>()[0] == 7.f, "the gradient that the library has in C");
}

// Errors, traces and devices are also passed across the boundary of the library.
Status LookAround() {
  const Scope root = Scope::NewRootScope();
  const Output bad = ops::MatMul(root.WithOpName("m"), {{1.f, 2.f}}, {{1.f, 2.f}});
  MR_RETURN_IF_ERROR(
      Expect(!bad.IsSet() && errors::IsInvalidArgument(root.status()), "shapes that do not fit"));

  const Scope good = Scope::NewRootScope();
  const Output sum = ops::Add(good.WithOpName("sum"), {1.f, 2.f}, {3.f, 4.f});
  SessionOptions options;
  options.device_count["CPU"] = 2;
  options.fold_constants = false;
  const ClientSession session(good, options);
  RunMetadata metadata;
  std::vector<Tensor> values;
  MR_RETURN_IF_ERROR(session.Run(RunOptions{.trace_level = RunOptions::TraceLevel::kFull}, {}, {sum}, {},
                                 &values, &metadata));
  MR_RETURN_IF_ERROR(Expect(values[0].flat<float>()[1] == 6.f, "2 + 4"));
  MR_RETURN_IF_ERROR(
      Expect(metadata.ToChromeTrace().find("sum") != std::string::npos, "the trace names the node"));
  MR_ASSIGN_OR_RETURN(const std::vector<DeviceInfo> devices, session.session()->ListDevices());
  MR_RETURN_IF_ERROR(Expect(devices.size() == 2, "two devices"));
  MR_RETURN_IF_ERROR(Expect(millrace::ParseDataType("DT_HALF") == DataType::kHalf, "names of types"));
  options.target = "nowhere://";
  return Expect(errors::IsNotFound(NewSession(options).status()), "no such kind of session");
}

}  // namespace

int main(int argc, char** argv) {
  Status status = Train();
  status.Update(DefineGradient());
  if (argc > 1) status.Update(LoadOps(argv[1]));
  status.Update(SaveAndLoad());
  status.Update(LookAround());
  if (!status.ok()) {
    std::cerr << "outside: " << status << '\n';
    return 1;
  }
  std::cout << "outside: trained with " << Tensor::Scalar(3.f).DebugString() << '\n';
  return 0;
}
