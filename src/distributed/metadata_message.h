// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/run_metadata.h"
#include "millrace/status.h"

namespace tensorflow {
class RunMetadata;
}

namespace millrace {

// What another process tells about a step: the inverse of RunMetadata::ToProto. The step starts with its
// first node. InvalidArgument for what no step can have measured.
StatusOr<RunMetadata> MetadataFromProto(const tensorflow::RunMetadata& proto);

}  // namespace millrace
