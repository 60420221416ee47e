// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "millrace/session.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tests/session/def_builder.h"

namespace millrace {

// Floats from a normal distribution, different ones in each call.
Tensor RandomFloats(const TensorShape& shape, double mean = 0, double deviation = 1);
// The results of a new session with that graph; the test fails if there is an error.
std::vector<Tensor> RunGraph(const tensorflow::GraphDef& graph, const Session::Feeds& feeds,
                             const std::vector<std::string>& fetches);
// Names of the nodes, in order.
std::vector<std::string> NamesOf(const tensorflow::GraphDef& graph);
// The number of nodes of each op.
std::map<std::string, int> OpsOf(const tensorflow::GraphDef& graph);
const tensorflow::NodeDef* FindNode(const tensorflow::GraphDef& graph, const std::string& name);

}  // namespace millrace
