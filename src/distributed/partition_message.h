// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/status.h"
#include "step/worker.h"

namespace tensorflow {
class GraphDef;
class RegisterGraphRequest;
}  // namespace tensorflow

namespace millrace {

// Feeds and fetches of a partition at another task: by slot here, by rendezvous key there.
struct BorderKeys {
  std::map<std::string, int> feeds;    // key -> feed slot
  std::map<std::string, int> fetches;  // key -> fetch slot
};

// Turns the _Arg and _Retval nodes of a partition into _Recv and _Send nodes that the client terminates, as
// TensorFlow's masters send them: values travel with RunGraph under the returned keys. `incarnation` of a
// device by name.
StatusOr<BorderKeys> UseKeysForFeedsAndFetches(Graph* graph,
                                               const std::function<uint64_t(std::string_view)>& incarnation);

// A partition as the message that registers it, and back. Incoming messages are checked as untrusted graphs.
void PartitionToRequest(const PartitionSpec& spec, tensorflow::RegisterGraphRequest* request);
StatusOr<PartitionSpec> PartitionFromRequest(tensorflow::RegisterGraphRequest request);

}  // namespace millrace
