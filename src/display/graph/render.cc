// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Views in Graphviz's DOT language and as SVG.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "display/graph/view.h"
#include "display/text.h"
#include "millrace/status.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

constexpr double kMargin = 20, kTitle = 30;

std::string DotQuoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : Printable(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

const char* DotStyle(BoxKind kind) {
  switch (kind) {
    case BoxKind::kScope:
      return "style=\"rounded,filled\" fillcolor=\"#e8eef5\" penwidth=1.5";
    case BoxKind::kGroup:
      return "style=\"rounded,filled,dashed\" fillcolor=\"#f1ecf7\"";
    case BoxKind::kConstant:
      return "style=\"rounded,filled\" fillcolor=\"#f3f3f0\" color=\"#b9bab4\"";
    case BoxKind::kVariable:
      return "style=\"filled\" fillcolor=\"#fdf0d8\"";
    case BoxKind::kPlaceholder:
      return "style=\"filled\" fillcolor=\"#dff2e4\"";
    case BoxKind::kOp:
      break;
  }
  return "style=\"filled\" fillcolor=\"#ffffff\"";
}

// The box around each box, by the items' parents: -1 for those in the root.
std::vector<int> BoxesAround(const GraphView& view, const ScopeTree& tree) {
  std::vector<int> box_of(tree.items.size(), -1), around;
  for (size_t b = 0; b < view.boxes.size(); ++b) {
    const auto item = static_cast<size_t>(view.boxes[b].item);
    box_of[item] = static_cast<int>(b);
    around.push_back(b == 0 ? -1 : box_of[static_cast<size_t>(tree.items[item].parent)]);
  }
  return around;
}

void DotBoxes(const GraphView& view, const std::vector<std::vector<int>>& inside, int box, int depth,
              std::string* out) {
  const std::string indent(static_cast<size_t>(2 * depth + 2), ' ');
  for (const int b : inside[static_cast<size_t>(box)]) {
    const ViewBox& child = view.boxes[static_cast<size_t>(b)];
    if (child.open) {
      *out += StrCat(indent, "subgraph cluster_", b, " {\n", indent, "  label=", DotQuoted(child.label),
                     " style=rounded color=\"#9aa7b5\"\n");
      DotBoxes(view, inside, b, depth + 1, out);
      *out += indent + "}\n";
      continue;
    }
    std::string label = DotQuoted(child.label);
    if (!child.detail.empty()) {
      const std::string detail = DotQuoted(child.detail);
      label.insert(label.size() - 1, "\\n" + detail.substr(1, detail.size() - 2));
    }
    *out += StrCat(indent, "n", b, " [label=", label, " ", DotStyle(child.kind), "]\n");
  }
}

std::string Number(double v) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.1f", v);
  std::string out = text;
  if (out.ends_with(".0")) out.resize(out.size() - 2);
  return out;
}

// Down from each point and into the next from above.
std::string PathOf(const std::vector<LayoutPoint>& route) {
  std::string path = StrCat("M", Number(route[0].x), " ", Number(route[0].y));
  for (size_t i = 1; i < route.size(); ++i) {
    const LayoutPoint &p = route[i - 1], &q = route[i];
    if (std::abs(p.x - q.x) < 0.05) {
      path += StrCat("V", Number(q.y));
      continue;
    }
    const std::string middle = Number((p.y + q.y) / 2);
    path += StrCat("C", Number(p.x), " ", middle, " ", Number(q.x), " ", middle, " ", Number(q.x), " ",
                   Number(q.y));
  }
  return path;
}

const char* ClassOf(BoxKind kind) {
  switch (kind) {
    case BoxKind::kScope:
      return "scope";
    case BoxKind::kGroup:
      return "group";
    case BoxKind::kConstant:
      return "const";
    case BoxKind::kVariable:
      return "variable";
    case BoxKind::kPlaceholder:
      return "placeholder";
    case BoxKind::kOp:
      break;
  }
  return "op";
}

std::string FullName(const ViewBox& box, const ScopeTree& tree, const tensorflow::GraphDef& graph) {
  const ScopeItem& item = tree.items[static_cast<size_t>(box.item)];
  if (box.node < 0) return item.is_group ? item.label : tree.PathOf(box.item);
  const auto& node = graph.node(box.node);
  std::string name = StrCat(node.name(), " (", node.op(), ")");
  if (!node.device().empty()) name += StrCat("\n", node.device());
  return name;
}

constexpr std::string_view kStyle =
    "<style>\n"
    "svg{background:#f6f6f3;font:12px system-ui,'Segoe UI',Roboto,'Noto Sans','DejaVu Sans',sans-serif}\n"
    "text{fill:#1b1d20;text-anchor:middle}.detail{fill:#5b626b;font-size:11px}.title{font-size:15px;"
    "font-weight:600;text-anchor:start}.about{fill:#5b626b;text-anchor:end}\n"
    "rect{fill:#fff;stroke:#8a929c}.open{fill:#8aa4c2;fill-opacity:.07;stroke:#a9b6c5}\n"
    ".scope rect{fill:#e3ebf4;stroke:#5f7fa3;stroke-width:1.4}.group rect{fill:#efe9f6;stroke:#8d77ad;"
    "stroke-dasharray:4 3}\n"
    ".const rect{fill:#efefeb;stroke:#c3c4bd}.variable rect{fill:#fdf0d8;stroke:#c29a45}"
    ".placeholder rect{fill:#dff2e4;stroke:#4f9a6a}\n"
    ".label{font-weight:600;text-anchor:start;fill:#41597a;paint-order:stroke;stroke:#f6f6f3;stroke-width:"
    "4px}path{fill:none;stroke:#7b8591}"
    ".control{stroke-dasharray:3 4;stroke:#a3abb5}marker path{fill:#7b8591;stroke:none}\n"
    "@media(prefers-color-scheme:dark){svg{background:#15171a}text{fill:#e9eaec}.detail,.about{fill:#a3a9b2}"
    "rect{fill:#22262b;stroke:#6d757f}.open{fill:#8aa4c2;fill-opacity:.09;stroke:#4d5b6b}"
    ".scope rect{fill:#25364a;stroke:#6f93bd}.group rect{fill:#322a40;stroke:#9a86bb}"
    ".const rect{fill:#2a2d31;stroke:#4b5057}.variable rect{fill:#3d3118;stroke:#b08a3c}"
    ".placeholder rect{fill:#1d3526;stroke:#4f9a6a}.label{fill:#9db8d8;stroke:#15171a}path{stroke:#808a96}"
    ".control{stroke:#5d6670}marker path{fill:#808a96}}\n"
    "</style>\n"
    "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
    "markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker></defs>\n";

std::string SvgBox(const ViewBox& box, const std::string& name) {
  const LayoutBox& p = box.place;
  const std::string rect = StrCat("x=\"", Number(p.x), "\" y=\"", Number(p.y), "\" width=\"", Number(p.width),
                                  "\" height=\"", Number(p.height), "\"");
  if (box.open) {
    return StrCat("<g><title>", EscapeXml(name), "</title><rect class=\"open\" ", rect, " rx=\"8\"/></g>\n");
  }
  const bool round = box.kind == BoxKind::kConstant;
  std::string out = StrCat("<g class=\"", ClassOf(box.kind), "\"><title>", EscapeXml(name), "</title><rect ",
                           rect, " rx=\"", round ? Number(p.height / 2) : "5", "\"/>");
  const std::string middle = Number(p.x + p.width / 2);
  out += StrCat("<text x=\"", middle, "\" y=\"", Number(p.y + 17), "\">", EscapeXml(box.label), "</text>");
  if (!box.detail.empty()) {
    out += StrCat("<text class=\"detail\" x=\"", middle, "\" y=\"", Number(p.y + 32), "\">",
                  EscapeXml(box.detail), "</text>");
  }
  return out + "</g>\n";
}

// The title of an open box.
std::string SvgTitle(const ViewBox& box) {
  return StrCat("<text class=\"label\" x=\"", Number(box.place.x + 12), "\" y=\"", Number(box.place.y + 19),
                "\">", EscapeXml(box.label), "</text>\n");
}

std::string SvgEdge(const ViewEdge& edge) {
  if (edge.route.size() < 2) return "";
  const double width =
      edge.count > 1 ? std::min(1.1 + 0.5 * std::log2(static_cast<double>(edge.count)), 5.0) : 1.1;
  return StrCat("<path ", edge.control ? "class=\"control\" " : "", "stroke-width=\"", Number(width),
                "\" marker-end=\"url(#tip)\" d=\"", PathOf(edge.route), "\">",
                edge.count > 1 ? StrCat("<title>", edge.count, " edges</title>") : "", "</path>\n");
}

}  // namespace

std::string RenderDot(const GraphView& view, const ScopeTree& tree, const std::string& title) {
  std::string out = StrCat("digraph ", DotQuoted(title),
                           " {\n  node [shape=box fontname=\"sans-serif\" fontsize=11 margin=\"0.12,0.05\"]\n"
                           "  edge [color=\"#7b8591\" arrowsize=0.7]\n");
  const std::vector<int> around = BoxesAround(view, tree);
  std::vector<std::vector<int>> inside(view.boxes.size());
  for (size_t b = 1; b < view.boxes.size(); ++b) {
    inside[static_cast<size_t>(around[b])].push_back(static_cast<int>(b));
  }
  DotBoxes(view, inside, 0, 0, &out);
  for (const ViewEdge& edge : view.edges) {
    out += StrCat("  n", edge.from, " -> n", edge.to);
    std::vector<std::string> attributes;
    if (edge.control) attributes.push_back("style=dashed");
    if (edge.count > 1) attributes.push_back(StrCat("label=\"", edge.count, "\""));
    for (size_t i = 0; i < attributes.size(); ++i) out += StrCat(i == 0 ? " [" : " ", attributes[i]);
    out += attributes.empty() ? "\n" : "]\n";
  }
  return out + "}\n";
}

std::string RenderSvg(const GraphView& view, const ScopeTree& tree, const tensorflow::GraphDef& graph,
                      const std::string& title) {
  const double width = std::max(view.size.x + 2 * kMargin, 480.0),
               height = view.size.y + 2 * kMargin + kTitle;
  std::string out =
      StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", Number(width), "\" height=\"",
             Number(height), "\" viewBox=\"0 0 ", Number(width), " ", Number(height), "\">\n", kStyle);
  out +=
      StrCat("<text class=\"title\" x=\"", Number(kMargin), "\" y=\"", Number(kMargin + 8), "\">",
             EscapeXml(Printable(title, 200)), "</text><text class=\"about\" x=\"", Number(width - kMargin),
             "\" y=\"", Number(kMargin + 8), "\">", CountOf(static_cast<uint64_t>(graph.node_size()), "node"),
             ", ", CountOf(tree.edges.size(), "edge"), "</text>\n");
  out += StrCat("<g transform=\"translate(", Number(kMargin), " ", Number(kMargin + kTitle), ")\">\n");
  for (size_t b = 1; b < view.boxes.size(); ++b) {
    if (view.boxes[b].open) out += SvgBox(view.boxes[b], FullName(view.boxes[b], tree, graph));
  }
  for (const ViewEdge& edge : view.edges) out += SvgEdge(edge);
  for (size_t b = 1; b < view.boxes.size(); ++b) {
    if (!view.boxes[b].open) out += SvgBox(view.boxes[b], FullName(view.boxes[b], tree, graph));
  }
  for (size_t b = 1; b < view.boxes.size(); ++b) {  // over the edges, which may cross them
    if (view.boxes[b].open) out += SvgTitle(view.boxes[b]);
  }
  return out + "</g>\n</svg>\n";
}

}  // namespace millrace
