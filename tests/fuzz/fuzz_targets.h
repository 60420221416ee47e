// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace millrace {

// What the fuzzers feed with arbitrary bytes. Any input must come to an end with a Status: no crash, no hang,
// no allocation beyond the limit that PrepareFuzzing sets.

// Parses a GraphDef, imports it with shape inference, exports it, and runs its last nodes once under a
// deadline.
void FuzzGraphDef(std::string_view bytes);
// Parses a TensorProto, decodes it, encodes it both ways and compares what comes back.
void FuzzTensorProto(std::string_view bytes);

// Once per process: registers the built-in ops and bounds tensor memory.
void PrepareFuzzing();

}  // namespace millrace
