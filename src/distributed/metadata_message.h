// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/run_metadata.h"
#include "millrace/status.h"

namespace tensorflow {
class RunMetadata;
}

namespace millrace {

// Measurements of a step by another process: the inverse of RunMetadata::ToProto. The step starts with its
// first node. InvalidArgument for impossible measurements.
StatusOr<RunMetadata> MetadataFromProto(const tensorflow::RunMetadata& proto);

}  // namespace millrace
