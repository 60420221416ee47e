// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "cli/graph/scope_tree.h"

namespace tensorflow {
class GraphDef;
}  // namespace tensorflow

namespace millrace::cli {

// Of scopes on a page, which opens them by itself, so that they may be larger than in a picture.
constexpr size_t kMostChildrenOfPage = 120;

// A page that needs nothing else: scopes open and close, nodes are found by name and op, and the page tells
// about the chosen one.
std::string RenderGraphPage(const ScopeTree& tree, const tensorflow::GraphDef& graph,
                            const std::string& title);

// The parts of the page, which the build makes constants of.
extern const std::string_view kGraphPageHtml;
extern const std::string_view kGraphPageStyle;
extern const std::string_view kGraphPageDataScript;
extern const std::string_view kGraphPageLayoutScript;
extern const std::string_view kGraphPageViewScript;
extern const std::string_view kGraphPageDetailsScript;

}  // namespace millrace::cli
