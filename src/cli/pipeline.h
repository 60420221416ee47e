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

// Which dataset of a graph is meant.
struct PipelineChoice {
  std::string node;    // the dataset's, or that of a one-shot iterator
  std::string tensor;  // what is to be fetched
  // Of a one-shot iterator: the function that makes the dataset, which a node `tensor` has to call.
  std::string factory;
};
// By the name of a dataset, of an iterator, or of an op that reads or starts one; "" for the only pipeline of
// the graph. Errors name those that there are.
StatusOr<PipelineChoice> ChoosePipeline(const tensorflow::GraphDef& graph, const std::string& name);

struct PipelineLimits {
  int64_t shown = 0;      // elements that are kept
  int64_t elements = -1;  // -1: no limit
  double seconds = 0;
  double timeout = 0;  // seconds for everything; 0: none
};

// What reading a dataset gave.
struct PipelineRun {
  data::Dataset::Signature signature;
  int64_t cardinality = data::Dataset::kUnknown;
  std::vector<data::Element> shown;
  int64_t elements = 0;
  double seconds = 0;  // for all of them
  double first = 0;    // until the first one was there
  bool ended = false;  // by the end of the dataset, not by a limit
  std::vector<data::PipelineMonitor::Stage> stages;
};
// Reads the dataset from its start with all that the session does for iterators, measured.
StatusOr<PipelineRun> ReadPipeline(Session& session, const PipelineChoice& choice,
                                   const Session::Feeds& feeds, const PipelineLimits& limits);

}  // namespace millrace::cli
