// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// saved_model DIR: saves the variables of a small model to DIR/model-1, restores the model from there,
// exports it as the SavedModel DIR/export and runs that.
#include <cstdio>
#include <string>

#include "millrace/ops.h"
#include "millrace/saved_model.h"
#include "millrace/saver.h"

namespace mr = millrace;
namespace ops = millrace::ops;

// y = 3 x + 1, trained elsewhere.
mr::Status SaveCheckpoint(const std::string& dir) {
  const mr::Scope scope = mr::Scope::NewRootScope();
  const mr::Output x = ops::Placeholder(scope.WithOpName("x"), mr::DataType::kFloat);
  const mr::GraphVariable w(scope.WithOpName("w"), 3.f), b(scope.WithOpName("b"), 1.f);
  ops::Add(scope.WithOpName("y"), ops::Mul(scope, x, w), b);
  const mr::Operation init = mr::GlobalVariablesInitializer(scope);
  mr::Saver saver(scope);
  const mr::ClientSession session(scope);
  MR_RETURN_IF_ERROR(session.Run({}, {}, {init}, nullptr));
  return saver.Save(session, dir + "/model", {.global_step = 1}).status();  // model-1.index, .meta, …
}

mr::Status ExportModel(const std::string& dir) {
  const std::string checkpoint = mr::LatestCheckpoint(dir);
  const mr::Scope scope = mr::Scope::NewRootScope();
  MR_ASSIGN_OR_RETURN(const mr::MetaGraph meta, mr::ImportMetaGraph(scope, checkpoint + ".meta"));
  const auto saver = mr::Saver::ForMetaGraph(scope, meta);
  const mr::ClientSession session(scope);
  MR_RETURN_IF_ERROR(saver->Restore(session, checkpoint));

  MR_ASSIGN_OR_RETURN(const mr::Operation x, scope.FindOperation("x"));
  MR_ASSIGN_OR_RETURN(const mr::Operation y, scope.FindOperation("y"));
  MR_ASSIGN_OR_RETURN(const auto builder, mr::SavedModelBuilder::Open(dir + "/export"));
  mr::SavedModelBuilder::MetaGraphOptions options;
  options.signatures[mr::saved_model::kDefaultSignature] =
      mr::PredictSignature(scope, {{"x", {x.node, 0}}}, {{"y", {y.node, 0}}});
  MR_RETURN_IF_ERROR(builder->AddMetaGraphAndVariables(session, scope, {mr::saved_model::kServe}, options));
  return builder->Save().status();
}

mr::Status RunModel(const std::string& dir) {
  MR_ASSIGN_OR_RETURN(const auto model,
                      mr::SavedModelBundle::Load(dir + "/export", {mr::saved_model::kServe}));
  MR_ASSIGN_OR_RETURN(const auto result,
                      model->Run(mr::saved_model::kDefaultSignature, {{"x", mr::Tensor::Scalar(2.f)}}));
  std::printf("y = %g\n", result.at("y").scalar<float>());
  return mr::Status();
}

int main(int argc, char** argv) {
  const std::string dir = argc > 1 ? argv[1] : ".";
  mr::Status status = SaveCheckpoint(dir);
  if (status.ok()) status = ExportModel(dir);
  if (status.ok()) status = RunModel(dir);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
