// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "display/graph/scope_tree.h"

namespace tensorflow {
class GraphDef;
}  // namespace tensorflow

namespace millrace {

// Of scopes on a page. It opens groups by itself where there is room, so that they may be small.
constexpr size_t kMostChildrenOfPage = 10;

// A page that needs no network and no other file: scopes open and close, nodes are found by name and op, and
// the page shows details of the selected one.
std::string RenderGraphPage(const ScopeTree& tree, const tensorflow::GraphDef& graph,
                            const std::string& title);

// The parts of the page, which the build makes constants of.
extern const std::string_view kGraphPageDagreScript;
extern const std::string_view kGraphPageHtml;
extern const std::string_view kGraphPageStyle;
extern const std::string_view kGraphPageDataScript;
extern const std::string_view kGraphPageLayoutScript;
extern const std::string_view kGraphPageViewScript;
extern const std::string_view kGraphPageDetailsScript;

}  // namespace millrace
