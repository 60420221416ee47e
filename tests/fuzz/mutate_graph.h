// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>
#include <string>
#include <string_view>

namespace millrace {

// A serialised GraphDef, changed: other fields, other types throughout, other inputs, or nodes of the
// registered ops. Bytes that do not parse become an empty graph first.
std::string MutateGraphDef(std::string_view bytes, std::mt19937& rng);
// The nodes of both graphs, those of the second under new names, with an edge or two between them.
std::string JoinGraphDefs(std::string_view a, std::string_view b, std::mt19937& rng);
// A serialised TensorProto, changed.
std::string MutateTensorProto(std::string_view bytes, std::mt19937& rng);

}  // namespace millrace
