// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "display/graph/view.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "display/text.h"
#include "millrace/status.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

constexpr double kCharacter = 6.7, kLineHeight = 15, kBoxPadding = 20;
constexpr double kScopePadding = 16, kScopeTitle = 22, kTitleCharacter = 7.6;
constexpr double kPinWidth = 8;
constexpr size_t kMostLabel = 30;  // characters

// As many characters as fit, the start and the end of the text.
std::string Shorten(const std::string& text) {
  std::string printable = Printable(text, 400);
  if (Width(printable) <= kMostLabel) return printable;
  std::vector<std::string_view> characters;
  const std::string_view view = printable;
  for (size_t i = 0; i < view.size();) {
    size_t end = i + 1;
    while (end < view.size() && (static_cast<unsigned char>(view[end]) & 0xc0) == 0x80) ++end;
    characters.push_back(view.substr(i, end - i));
    i = end;
  }
  std::string out;
  const size_t head = kMostLabel / 2 + 3, tail = kMostLabel - head - 1;
  for (size_t i = 0; i < head; ++i) out += characters[i];
  out += "…";
  for (size_t i = characters.size() - tail; i < characters.size(); ++i) out += characters[i];
  return out;
}

class ViewMaker {
 public:
  ViewMaker(const ScopeTree& tree, const tensorflow::GraphDef& graph, const ViewOptions& options)
      : tree_(tree),
        graph_(graph),
        options_(options),
        constants_(options.constants || tree.items[0].constants == tree.items[0].nodes),
        open_(tree.items.size(), false) {}

  GraphView Make() {
    ChooseOpen();
    AddBoxes();
    LiftEdges();
    LayOutAll();
    PlaceAll();
    return std::move(view_);
  }

 private:
  // One open box: the boxes in it, pins for edges from and to the outside, and the edges between all of
  // these.
  struct Inside {
    std::vector<int> boxes;
    std::vector<LayoutBox::Pin> pins;  // numbered after the boxes
    std::vector<LayoutEdge> edges;
    std::map<std::pair<int, int>, int> edge_of;  // by places; the other end of an edge to a pin is -1
  };
  // A segment of an edge: an open box, and the number of the edge in it.
  using Segment = std::pair<int, int>;
  const ScopeItem& item(int i) const { return tree_.items[static_cast<size_t>(i)]; }
  ViewBox& box(int b) { return view_.boxes[static_cast<size_t>(b)]; }

  bool Shown(int i) const { return constants_ || item(i).constants < item(i).nodes; }
  std::vector<int> ShownIn(int i) const {
    std::vector<int> shown = item(i).children;
    std::erase_if(shown, [&](int child) { return !Shown(child); });
    return shown;
  }
  // The only node that a scope shows, which represents the scope, or -1; of a node: itself.
  int SoleNode(int i) const {
    while (item(i).node < 0) {
      const std::vector<int> shown = ShownIn(i);
      if (item(i).is_group || shown.size() != 1) return -1;
      i = shown[0];
    }
    return i;
  }

  void ChooseOpen() {
    open_[0] = true;
    std::vector<int> level = ShownIn(0);
    size_t boxes = level.size();
    for (int depth = 1; depth < options_.most_depth && !level.empty(); ++depth) {
      std::erase_if(level, [&](int i) { return SoleNode(i) >= 0; });
      std::vector<std::pair<std::vector<int>, int>> inner;  // what each shows
      inner.reserve(level.size());
      for (const int i : level) inner.emplace_back(ShownIn(i), i);
      std::stable_sort(inner.begin(), inner.end(),
                       [&](const auto& a, const auto& b) { return a.first.size() < b.first.size(); });
      std::vector<int> next;
      for (const auto& [children, i] : inner) {
        if (boxes + children.size() > options_.most_boxes) break;
        open_[static_cast<size_t>(i)] = true;
        boxes += children.size();
        next.insert(next.end(), children.begin(), children.end());
      }
      level = std::move(next);
    }
  }

  // Parents come before children among items, and so among boxes. The root is box 0 at first.
  void AddBoxes() {
    box_of_.assign(tree_.items.size(), -1);
    for (size_t i = 0; i < tree_.items.size(); ++i) {
      const int parent = tree_.items[i].parent;
      if (parent >= 0 && (!open_[static_cast<size_t>(parent)] || box_of_[static_cast<size_t>(parent)] < 0))
        continue;
      if (!Shown(static_cast<int>(i))) continue;
      box_of_[i] = static_cast<int>(view_.boxes.size());
      view_.boxes.push_back(MakeBox(static_cast<int>(i)));
      inside_.emplace_back();
      parent_.push_back(parent < 0 ? -1 : box_of_[static_cast<size_t>(parent)]);
      depth_.push_back(parent < 0 ? 0 : depth_[static_cast<size_t>(parent_.back())] + 1);
      place_in_parent_.push_back(0);
      if (parent < 0) continue;
      auto& siblings = inside_[static_cast<size_t>(parent_.back())].boxes;
      place_in_parent_.back() = static_cast<int>(siblings.size());
      siblings.push_back(box_of_[i]);
    }
  }

  ViewBox MakeBox(int i) const {
    ViewBox made;
    made.item = i;
    made.open = open_[static_cast<size_t>(i)];
    std::string label = item(i).label;
    if (const int sole = made.open ? -1 : SoleNode(i); sole >= 0) {
      for (int inner = i; inner != sole;) {
        inner = ShownIn(inner)[0];
        if (item(inner).label != item(item(inner).parent).label) label += "/" + item(inner).label;
      }
      const auto& node = graph_.node(item(sole).node);
      made.node = item(sole).node;
      made.kind = KindOfOp(node.op());
      if (node.op() != item(sole).label) made.detail = Shorten(node.op());
    } else {
      made.kind = item(i).is_group ? BoxKind::kGroup : BoxKind::kScope;
      const int64_t nodes = constants_ ? item(i).nodes : item(i).nodes - item(i).constants;
      made.detail = CountOf(static_cast<uint64_t>(nodes), "node");
    }
    made.label = Shorten(label);
    const auto widest = static_cast<double>(std::max(Width(made.label), Width(made.detail)));
    made.place.width = std::max(widest * kCharacter + kBoxPadding, 44.0);
    made.place.height = made.detail.empty() ? 26 : 26 + kLineHeight;
    return made;
  }

  // The box that shows a node; -1: none.
  int BoxOfNode(int node) const {
    int i = tree_.item_of_node[static_cast<size_t>(node)];
    if (!Shown(i)) return -1;
    while (box_of_[static_cast<size_t>(i)] < 0) i = item(i).parent;
    return box_of_[static_cast<size_t>(i)];
  }

  void LiftEdges() {
    std::unordered_map<uint64_t, size_t> known;
    for (const ScopeEdge& edge : tree_.edges) {
      const int from = BoxOfNode(edge.from), to = BoxOfNode(edge.to);
      if (from < 0 || to < 0 || from == to) continue;
      const uint64_t key = static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to);
      const auto [it, added] = known.try_emplace(key, view_.edges.size());
      if (added) {
        ViewEdge lifted;
        lifted.from = from, lifted.to = to;
        lifted.control = true;
        view_.edges.push_back(std::move(lifted));
        segments_.push_back(SegmentsOf(from, to));
      }
      ViewEdge& lifted = view_.edges[it->second];
      ++lifted.count;
      lifted.control = lifted.control && edge.output < 0;
    }
  }

  int AddLayoutEdge(int around, int from, int to) {
    Inside& inside = inside_[static_cast<size_t>(around)];
    const auto [it, added] = inside.edge_of.try_emplace({from, to}, static_cast<int>(inside.edges.size()));
    if (!added) return it->second;
    const auto pin = [&](LayoutBox::Pin where) {
      inside.pins.push_back(where);
      return static_cast<int>(inside.boxes.size() + inside.pins.size()) - 1;
    };
    LayoutEdge edge;
    edge.from = from >= 0 ? from : pin(LayoutBox::Pin::kFirst);
    edge.to = to >= 0 ? to : pin(LayoutBox::Pin::kLast);
    inside.edges.push_back(std::move(edge));
    return it->second;
  }

  // From the open boxes around `from`, through the one that contains both, into those around `to`.
  std::vector<Segment> SegmentsOf(int from, int to) {
    const auto depth = [&](int b) { return depth_[static_cast<size_t>(b)]; };
    const auto parent = [&](int b) { return parent_[static_cast<size_t>(b)]; };
    const auto place = [&](int b) { return place_in_parent_[static_cast<size_t>(b)]; };
    std::vector<Segment> segments, into;
    const auto leave = [&] {
      segments.emplace_back(parent(from), AddLayoutEdge(parent(from), place(from), -1));
      from = parent(from);
    };
    const auto enter = [&] {
      into.emplace_back(parent(to), AddLayoutEdge(parent(to), -1, place(to)));
      to = parent(to);
    };
    while (depth(from) > depth(to)) leave();
    while (depth(to) > depth(from)) enter();
    while (parent(from) != parent(to)) leave(), enter();
    segments.emplace_back(parent(from), AddLayoutEdge(parent(from), place(from), place(to)));
    segments.insert(segments.end(), into.rbegin(), into.rend());
    return segments;
  }

  // From the inside out.
  void LayOutAll() {
    for (int b = static_cast<int>(view_.boxes.size()) - 1; b >= 0; --b) {
      if (!box(b).open) continue;
      Inside& inside = inside_[static_cast<size_t>(b)];
      std::vector<LayoutBox> places;
      for (const int child : inside.boxes) places.push_back(box(child).place);
      for (const LayoutBox::Pin pin : inside.pins) {
        places.emplace_back();
        places.back().width = kPinWidth;
        places.back().pin = pin;
      }
      const LayoutPoint size = LayOut(&places, &inside.edges);
      for (size_t i = 0; i < inside.boxes.size(); ++i) box(inside.boxes[i]).place = places[i];
      const double title = static_cast<double>(Width(box(b).label)) * kTitleCharacter;
      box(b).place.width = std::max(size.x, title) + 2 * kScopePadding;
      box(b).place.height = size.y + 2 * kScopePadding + kScopeTitle;
    }
  }

  // Positions are relative to the enclosing box up to here.
  void PlaceAll() {
    for (size_t b = 0; b < view_.boxes.size(); ++b) {
      if (!view_.boxes[b].open) continue;
      const LayoutBox around = view_.boxes[b].place;
      const LayoutPoint origin = {around.x + kScopePadding, around.y + kScopePadding + kScopeTitle};
      for (const int child : inside_[b].boxes) {
        box(child).place.x += origin.x, box(child).place.y += origin.y;
      }
      for (LayoutEdge& edge : inside_[b].edges) {
        for (LayoutPoint& point : edge.route) point.x += origin.x, point.y += origin.y;
      }
    }
    for (size_t e = 0; e < view_.edges.size(); ++e) view_.edges[e].route = Join(segments_[e]);
    view_.size = {box(0).place.width, box(0).place.height};
  }

  // The route of an edge, joined from its segments. A segment ends at the middle of an open box: it is
  // continued at the pin of the neighbouring segment.
  std::vector<LayoutPoint> Join(const std::vector<Segment>& segments) const {
    std::vector<LayoutPoint> route;
    for (const auto& [around, number] : segments) {
      const LayoutEdge& edge = inside_[static_cast<size_t>(around)].edges[static_cast<size_t>(number)];
      const bool enters = edge.from >= static_cast<int>(inside_[static_cast<size_t>(around)].boxes.size());
      const size_t joint = route.size();
      route.insert(route.end(), edge.route.begin(), edge.route.end());
      if (joint == 0) continue;
      if (enters) {
        route[joint - 1].x = route[joint].x;
      } else {
        route[joint].x = route[joint - 1].x;
      }
    }
    return route;
  }

  const ScopeTree& tree_;
  const tensorflow::GraphDef& graph_;
  const ViewOptions& options_;
  const bool constants_;
  std::vector<bool> open_;   // by item
  std::vector<int> box_of_;  // by item; -1: not visible
  GraphView view_;
  // By box.
  std::vector<Inside> inside_;
  std::vector<int> parent_, depth_, place_in_parent_;
  std::vector<std::vector<Segment>> segments_;  // by edge of the view
};

}  // namespace

BoxKind KindOfOp(const std::string& op) {
  if (op == "Const" || op == "ImmutableConst") return BoxKind::kConstant;
  if (op.starts_with("Placeholder") || op == "_Arg") return BoxKind::kPlaceholder;
  if (op.starts_with("Variable") || op == "VarHandleOp") return BoxKind::kVariable;
  return BoxKind::kOp;
}

GraphView MakeView(const ScopeTree& tree, const tensorflow::GraphDef& graph, const ViewOptions& options) {
  return ViewMaker(tree, graph, options).Make();
}

}  // namespace millrace
