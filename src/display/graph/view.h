// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "display/graph/layout.h"
#include "display/graph/scope_tree.h"

namespace tensorflow {
class GraphDef;
}  // namespace tensorflow

namespace millrace {

struct ViewOptions {
  // Scopes are opened, the outer ones first, while no more boxes than this are to be seen.
  size_t most_boxes = 80;
  int most_depth = 100;  // scopes in each other that may be open
  // Whether constants, and nodes computed only from them, are drawn. Graphs of nothing else show them anyway.
  bool constants = false;
};

// What of a tree is drawn as a box, and how.
enum class BoxKind { kScope, kGroup, kOp, kConstant, kVariable, kPlaceholder };

struct ViewBox {
  int item = 0;
  int node = -1;  // of the graph, where one is drawn: the item's own, or all that the item's scope shows
  BoxKind kind = BoxKind::kOp;
  bool open = false;  // its children are boxes, too
  std::string label, detail;
  LayoutBox place;  // open boxes hold those of their children
};

struct ViewEdge {
  int from = 0, to = 0;  // in GraphView::boxes
  int64_t count = 0;     // of edges of the graph
  bool control = false;  // all of them are control edges
  std::vector<LayoutPoint> route;
};

// A graph with some of its scopes open, and its drawing.
struct GraphView {
  std::vector<ViewBox> boxes;  // an open box comes before those in it
  std::vector<ViewEdge> edges;
  LayoutPoint size;
};

GraphView MakeView(const ScopeTree& tree, const tensorflow::GraphDef& graph, const ViewOptions& options);

BoxKind KindOfOp(const std::string& op);

// Graphviz's language, with open scopes as clusters.
std::string RenderDot(const GraphView& view, const ScopeTree& tree, const std::string& title);
std::string RenderSvg(const GraphView& view, const ScopeTree& tree, const tensorflow::GraphDef& graph,
                      const std::string& title);

}  // namespace millrace
