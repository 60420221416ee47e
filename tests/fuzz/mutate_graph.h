// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>
#include <string>
#include <string_view>

namespace millrace {

// Mutates a serialised GraphDef: other fields, other types throughout, other inputs, or nodes of the
// registered ops. Bytes that do not parse are replaced by an empty graph first.
std::string MutateGraphDef(std::string_view bytes, std::mt19937& rng);
// The nodes of both graphs, those of the second with new names, and one or two edges between them.
std::string JoinGraphDefs(std::string_view a, std::string_view b, std::mt19937& rng);
// Mutates a serialised TensorProto.
std::string MutateTensorProto(std::string_view bytes, std::mt19937& rng);

}  // namespace millrace
