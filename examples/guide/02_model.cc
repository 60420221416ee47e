// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// 02_model DIR: runs a SavedModel by the names of its signature, and a frozen graph by the names of its
// nodes.
#include <iostream>

#include "millrace/graph_def.h"
#include "millrace/saved_model.h"

namespace mr = millrace;

// Feeds and fetches have the names that the model was exported with.
mr::Status RunSavedModel(const std::string& folder) {
  MR_ASSIGN_OR_RETURN(const auto model, mr::SavedModelBundle::Load(folder, {mr::saved_model::kServe}));
  for (const auto& [name, signature] : model->signatures()) {
    std::cout << name << ":\n";
    for (const auto& [input, info] : signature.inputs)
      std::cout << "  takes " << input << ", " << info.dtype << ' ' << info.shape << '\n';
    for (const auto& [output, info] : signature.outputs)
      std::cout << "  gives " << output << ", " << info.dtype << ' ' << info.shape << '\n';
  }
  const mr::SavedModelBundle::Tensors sizes = {{"width", mr::Tensor::Vector({2.f, 3.f})},
                                               {"height", mr::Tensor::Vector({5.f, 7.f})}};
  MR_ASSIGN_OR_RETURN(const auto all, model->Run(mr::saved_model::kDefaultSignature, sizes));
  for (const auto& [name, value] : all) std::cout << name << " = " << value << '\n';
  // Only what is fetched is computed. A name that the signature lacks is an error that says so.
  const auto wrong = model->Run(mr::saved_model::kDefaultSignature, sizes, {"volume"});
  std::cout << wrong.status() << '\n';
  return mr::Status();
}

// A GraphDef has no signatures: tensors are called "node" or "node:output".
mr::Status RunFrozenGraph(const std::string& file) {
  MR_ASSIGN_OR_RETURN(const auto session, mr::LoadSession(file));
  MR_ASSIGN_OR_RETURN(const mr::Tensor x, mr::Tensor::Of({{1.f, 1.f}, {4.f, 2.f}}));
  std::vector<mr::Tensor> outputs;
  MR_RETURN_IF_ERROR(session->Run({{"x", x}}, {"y"}, {}, &outputs));
  std::cout << "y =\n" << outputs[0] << '\n';
  return mr::Status();
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "model";
  mr::Status status = RunSavedModel(folder);
  if (status.ok()) status = RunFrozenGraph(folder + "/frozen.pbtxt");
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
