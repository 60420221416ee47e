// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/model_session.h"
#include "data/monitor.h"
#include "millrace/status.h"

namespace millrace::cli {

// The dataset to be read.
struct PipelineChoice {
  std::string node;    // the dataset's, or that of a one-shot iterator
  std::string tensor;  // the tensor to fetch
  // Of a one-shot iterator: the function that makes the dataset, which a node `tensor` has to call.
  std::string factory;
};
// Found by the name of a dataset, of an iterator, or of an op that reads or starts one; "" for the only
// pipeline of the graph. Errors list the possible names.
StatusOr<PipelineChoice> ChoosePipeline(const tensorflow::GraphDef& graph, const std::string& name);

struct PipelineLimits {
  int64_t shown = 0;      // elements that are kept
  int64_t elements = -1;  // -1: no limit
  double seconds = 0;
  double timeout = 0;  // seconds for everything; 0: none
};

// The result of reading a dataset.
struct PipelineRun {
  data::Dataset::Signature signature;
  int64_t cardinality = data::Dataset::kUnknown;
  std::vector<data::Element> shown;
  int64_t elements = 0;
  double seconds = 0;  // for all of them
  double first = 0;    // until the first one was ready
  bool ended = false;  // by the end of the dataset, not by a limit
  std::vector<data::PipelineMonitor::Stage> stages;
};
// Reads the dataset from its start as an iterator of the session, with measurements.
StatusOr<PipelineRun> ReadPipeline(Session& session, const PipelineChoice& choice,
                                   const Session::Feeds& feeds, const PipelineLimits& limits);

}  // namespace millrace::cli
