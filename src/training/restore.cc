// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "training/restore.h"

#include "graph/graph.h"

namespace millrace {

bool CanRestore(const SaverDef& saver) {
  return !saver.restore_op_name.empty() && !saver.filename_tensor_name.empty();
}

Status RestoreVariables(Session& session, const RunOptions& options, const SaverDef& saver,
                        const std::string& checkpoint, Session::Feeds feeds) {
  if (!CanRestore(saver))
    return errors::FailedPrecondition("The meta graph names no operation that restores its variables");
  feeds.emplace_back(saver.filename_tensor_name, Tensor::Scalar(checkpoint));
  const std::string target(ParseTensorId(saver.restore_op_name).name);
  return session.Run(options, feeds, {}, {target}, nullptr, nullptr);
}

}  // namespace millrace
