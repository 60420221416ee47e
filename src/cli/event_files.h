// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "millrace/status.h"

namespace tensorflow {
class Summary_Value;
}  // namespace tensorflow

namespace millrace::cli {

struct EventFile {
  std::string path;
  std::string run;  // the folder, as it was named on the command line
};

// The files in `paths`, and the event files in the folders in `paths` and in their subfolders. Sorted within
// each folder.
StatusOr<std::vector<EventFile>> CollectEventFiles(Env& env, const std::vector<std::string>& paths);

// The value of a summary with one number: a plain one, or a tensor of one element.
bool ScalarOf(const tensorflow::Summary_Value& value, double* scalar);

}  // namespace millrace::cli
