// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Graphs as pages.
#include "c/internal.h"
#include "display/graph/page.h"
#include "millrace/c/client.h"
#include "tensorflow/core/framework/graph.pb.h"

using millrace::Status;
using millrace::c_api::Enter;
using millrace::c_api::Parse;

TF_Buffer* Millrace_GraphPage(const void* graph_def, size_t length, const char* title, TF_Status* status) {
  TF_Buffer* page = nullptr;
  Enter(status, [&]() -> Status {
    tensorflow::GraphDef graph;
    if (!Parse(graph_def, length, &graph)) return millrace::errors::InvalidArgument("Invalid GraphDef");
    const millrace::ScopeTree tree = millrace::BuildScopeTree(graph, millrace::kMostChildrenOfPage);
    page =
        millrace::c_api::NewBufferOf(millrace::RenderGraphPage(tree, graph, title == nullptr ? "" : title));
    return Status();
  });
  return page;
}
