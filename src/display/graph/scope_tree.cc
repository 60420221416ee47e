// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "display/graph/scope_tree.h"

#include <algorithm>
#include <array>
#include <climits>
#include <iterator>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/strings.h"
#include "graph/graph.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

constexpr size_t kMostDepth = 40;  // nested scopes; deeper ones are one name
constexpr size_t kMostMissing = 20;
constexpr size_t kLeastSideBySide = 4, kMostSideBySide = 40, kLeastPiece = 4;

using ScopeEdges = std::vector<std::pair<int, int>>;  // from and to, two children of one scope

// Ops whose results are constant if their inputs are.
bool KeepsConstants(std::string_view op) {
  static constexpr std::array<std::string_view, 8> kOps = {"Identity", "StopGradient", "Cast",      "Reshape",
                                                           "Squeeze",  "ExpandDims",   "Transpose", "Fill"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

// Constants, and values derived from them without arithmetic.
std::vector<bool> FindConstants(const tensorflow::GraphDef& graph, const std::vector<ScopeEdge>& edges) {
  std::vector<bool> constant(static_cast<size_t>(graph.node_size()), false);
  std::vector<int> unknown(constant.size(), 0);  // inputs that are not known to be constants
  std::vector<std::vector<int>> readers(constant.size());
  std::vector<int> ready;
  for (const ScopeEdge& edge : edges) {
    if (!KeepsConstants(graph.node(edge.to).op())) continue;
    ++unknown[static_cast<size_t>(edge.to)];
    readers[static_cast<size_t>(edge.from)].push_back(edge.to);
  }
  for (int i = 0; i < graph.node_size(); ++i) {
    if (graph.node(i).op() == "Const" || graph.node(i).op() == "ImmutableConst") ready.push_back(i);
  }
  while (!ready.empty()) {
    const auto node = static_cast<size_t>(ready.back());
    ready.pop_back();
    constant[node] = true;
    for (const int reader : readers[node]) {
      if (--unknown[static_cast<size_t>(reader)] == 0) ready.push_back(reader);
    }
  }
  return constant;
}

// The name without a number at its end: "layer_12" and "layer" are "layer".
std::string_view Stem(std::string_view name) {
  size_t end = name.size();
  while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9') --end;
  if (end == name.size() || end == 0) return name;
  if (end > 1 && name[end - 1] == '_') --end;
  return name.substr(0, end);
}

class Builder {
 public:
  Builder(const tensorflow::GraphDef& graph, size_t most_children)
      : graph_(graph), most_(std::max<size_t>(most_children, 2)) {}

  ScopeTree Build() {
    items_.emplace_back();
    FindScopes();
    AddNodes();
    AddEdges();
    Count();
    // Groups come after their members, so the numbers change.
    std::vector<ScopeEdges> edges = EdgesInside();
    for (size_t i = 0; i < edges.size(); ++i) Fold(static_cast<int>(i), std::move(edges[i]));
    Renumber();
    return std::move(tree_);
  }

 private:
  ScopeItem& item(int i) { return items_[static_cast<size_t>(i)]; }
  int AddItem(std::string label, int parent) {
    const int id = static_cast<int>(items_.size());
    items_.emplace_back();
    items_.back().label = std::move(label);
    items_.back().parent = parent;
    item(parent).children.push_back(id);
    return id;
  }

  // Calls visit(length of the prefix, part) for each scope in the name; returns where the last part begins.
  template <typename Visit>
  static size_t ForEachScope(std::string_view name, const Visit& visit) {
    size_t begin = 0;
    for (size_t depth = 0; depth < kMostDepth; ++depth) {
      const size_t slash = name.find('/', begin);
      if (slash == std::string_view::npos || slash + 1 == name.size()) break;
      visit(slash, name.substr(begin, slash - begin));
      begin = slash + 1;
    }
    return begin;
  }

  void FindScopes() {
    for (const auto& node : graph_.node()) {
      int scope = 0;
      ForEachScope(node.name(), [&](size_t length, std::string_view part) {
        const auto [it, added] = scopes_.try_emplace(std::string_view(node.name()).substr(0, length), 0);
        if (added) it->second = AddItem(std::string(part), scope);
        scope = it->second;
      });
    }
  }

  // A node that has the name of a scope is in that scope.
  void AddNodes() {
    item_of_node_.reserve(static_cast<size_t>(graph_.node_size()));
    for (int i = 0; i < graph_.node_size(); ++i) {
      const std::string_view name = graph_.node(i).name();
      int scope = 0;
      const size_t begin = ForEachScope(
          name, [&](size_t length, std::string_view) { scope = scopes_.at(name.substr(0, length)); });
      if (const auto same = scopes_.find(name); same != scopes_.end()) scope = same->second;
      const int id = AddItem(std::string(name.substr(begin)), scope);
      item(id).node = i;
      item(id).nodes = 1;
      item_of_node_.push_back(id);
    }
  }

  void AddEdges() {
    std::unordered_map<std::string_view, int> by_name;
    for (int i = 0; i < graph_.node_size(); ++i) by_name.emplace(graph_.node(i).name(), i);
    for (int to = 0; to < graph_.node_size(); ++to) {
      const auto& node = graph_.node(to);
      for (int i = 0; i < node.input_size(); ++i) {
        const TensorId id = ParseTensorId(node.input(i));
        const auto from = by_name.find(id.name);
        if (from != by_name.end()) {
          tree_.edges.push_back({from->second, to, id.index, i});
        } else if (tree_.missing.size() < kMostMissing) {
          tree_.missing.push_back(node.input(i));
        }
      }
    }
  }

  void Count() {
    const std::vector<bool> constant = FindConstants(graph_, tree_.edges);
    for (ScopeItem& item : items_)
      item.constants = item.node >= 0 && constant[static_cast<size_t>(item.node)] ? 1 : 0;
    for (size_t i = items_.size(); i > 1; --i) {
      // Scopes come before their members.
      item(items_[i - 1].parent).nodes += items_[i - 1].nodes;
      item(items_[i - 1].parent).constants += items_[i - 1].constants;
    }
  }

  // Takes these children of `parent` into a group.
  int Group(std::string label, const std::vector<int>& members, int parent) {
    const int id = static_cast<int>(items_.size());
    items_.emplace_back();
    ScopeItem& group = items_.back();
    group.label = std::move(label);
    group.parent = parent;
    group.is_group = true;
    group.children = members;
    for (const int member : members) {
      group.nodes += item(member).nodes;
      group.constants += item(member).constants;
      item(member).parent = id;
    }
    return id;
  }

  bool Shown(int i) { return item(i).constants < item(i).nodes; }

  // Visible children are grouped if there are too many: first those that are parallel, then sections of the
  // order from the first to the last.
  void Fold(int parent, ScopeEdges edges) {
    if (CountShown(item(parent).children) <= most_) return;
    SortAlongEdges(parent, &edges);
    GroupSideBySide(parent, edges);
    if (CountShown(item(parent).children) > most_) GroupPieces(parent, edges);
  }

  size_t CountShown(const std::vector<int>& list) {
    return static_cast<size_t>(std::count_if(list.begin(), list.end(), [&](int i) { return Shown(i); }));
  }

  // Children in an order in which most edges go forward and branches stay together; constants before the
  // first that reads them. Sets `depth` of each child: the longest path to it.
  void SortAlongEdges(int parent, ScopeEdges* edges) {
    const std::vector<int> children = item(parent).children;
    std::unordered_map<int, size_t> place;
    for (size_t k = 0; k < children.size(); ++k) place.emplace(children[k], k);
    std::vector<std::vector<size_t>> out(children.size());
    std::vector<bool> read(children.size(), false);
    for (const auto& [from, to] : *edges) {
      out[place.at(from)].push_back(place.at(to));
      if (Shown(from)) read[place.at(to)] = true;
    }
    // Backwards along finishing times, without edges that close a cycle.
    std::vector<char> state(children.size(), 0);
    std::vector<size_t> finished;
    std::vector<std::pair<size_t, size_t>> way;
    const auto walk = [&](size_t root) {
      if (state[root] != 0 || !Shown(children[root])) return;
      state[root] = 1;
      way.emplace_back(root, 0);
      while (!way.empty()) {
        auto& [k, next] = way.back();
        if (next == out[k].size()) {
          state[k] = 2;
          finished.push_back(k);
          way.pop_back();
          continue;
        }
        const size_t to = out[k][next++];
        if (state[to] == 0) state[to] = 1, way.emplace_back(to, 0);
      }
    };
    for (size_t k = children.size(); k > 0; --k) {
      if (!read[k - 1]) walk(k - 1);
    }
    for (size_t k = children.size(); k > 0; --k) walk(k - 1);
    std::reverse(finished.begin(), finished.end());
    std::vector<double> position(children.size(), static_cast<double>(children.size()));
    for (size_t k = 0; k < finished.size(); ++k) position[finished[k]] = static_cast<double>(k);
    for (size_t round = 0; round < 2; ++round) {  // a constant that another one is made of
      for (size_t k = 0; k < children.size(); ++k) {
        if (Shown(children[k])) continue;
        for (const size_t to : out[k]) position[k] = std::min(position[k], position[to] - 0.5);
      }
    }
    std::vector<size_t> order(children.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return position[a] < position[b]; });
    auto& sorted = item(parent).children;
    for (size_t k = 0; k < order.size(); ++k) sorted[k] = children[order[k]];
    depth_.clear();
    for (const int child : sorted) depth_.emplace(child, 0);
    for (const size_t k : finished) {
      for (const size_t to : out[k]) {
        if (position[to] <= position[k]) continue;
        int& deeper = depth_[children[to]];
        deeper = std::max(deeper, depth_[children[k]] + 1);
      }
    }
  }

  // The kind of a node: its op, or of a scope the name without its number.
  std::string KindOf(int child) {
    const ScopeItem& it = item(child);
    if (it.node >= 0) return graph_.node(it.node).op();
    return std::string(Stem(it.label));
  }

  // Groups children of one kind and depth without a path between them, the largest groups first.
  void GroupSideBySide(int parent, const ScopeEdges& edges) {
    if (edges.size() > 4 * item(parent).children.size()) return;  // no groups
    std::map<std::pair<std::string, int>, std::vector<int>> by_kind;
    for (const int child : item(parent).children) {
      if (Shown(child)) by_kind[{KindOf(child), depth_[child]}].push_back(child);
    }
    std::vector<const std::vector<int>*> groups;
    std::vector<std::string> labels;
    for (const auto& [kind, members] : by_kind) {
      if (members.size() < kLeastSideBySide) continue;
      groups.push_back(&members);
    }
    std::stable_sort(groups.begin(), groups.end(),
                     [](const auto* a, const auto* b) { return a->size() > b->size(); });
    size_t count = CountShown(item(parent).children);
    for (const std::vector<int>* members : groups) {
      if (count <= most_) break;
      count -= members->size() - 1;
      const std::string label = StrCat(KindOf(members->front()), " × ", members->size());
      ReplaceByGroup(parent, label, *members);
    }
  }

  // The group takes the position of its first member. Groups that are too large get groups of neighbours.
  void ReplaceByGroup(int parent, const std::string& label, const std::vector<int>& members) {
    const std::vector<int> before = item(parent).children;
    const std::unordered_set<int> inside(members.begin(), members.end());
    const int group = Group(label, members, parent);
    std::vector<int> children;
    for (const int child : before) {
      if (!inside.contains(child)) children.push_back(child);
      if (child == members.front()) children.push_back(group);
    }
    item(parent).children = std::move(children);
    const int deeper = depth_[members.front()];
    depth_[group] = deeper;
    while (item(group).children.size() > kMostSideBySide) GroupNeighbours(group, kMostSideBySide);
  }

  void GroupNeighbours(int parent, size_t size) {
    const std::vector<int> all = item(parent).children;
    std::vector<int> groups;
    for (size_t begin = 0; begin < all.size(); begin += size) {
      groups.push_back(GroupRange(parent, all, begin, std::min(begin + size, all.size())));
    }
    item(parent).children = std::move(groups);
  }

  int GroupRange(int parent, const std::vector<int>& all, size_t begin, size_t end) {
    const auto at = [&](size_t k) { return all.begin() + static_cast<ptrdiff_t>(k); };
    std::vector<int> shown;
    std::copy_if(at(begin), at(end), std::back_inserter(shown), [&](int i) { return Shown(i); });
    if (shown.size() < 2 && end - begin == 1) return all[begin];
    const int first = shown.empty() ? all[begin] : shown.front(),
              last = shown.empty() ? all[end - 1] : shown.back();
    const std::string label =
        first == last ? item(first).label : StrCat(LabelOf(first, true), " … ", LabelOf(last, false));
    return Group(label, std::vector<int>(at(begin), at(end)), parent);
  }

  // The name of the first or last node in a group, or the name of a scope.
  const std::string& LabelOf(int child, bool first) {
    while (item(child).is_group) child = first ? item(child).children.front() : item(child).children.back();
    return item(child).label;
  }

  // Sections of the order along the edges, cut where the fewest edges cross.
  void GroupPieces(int parent, const ScopeEdges& edges) {
    const std::vector<int> all = item(parent).children;
    std::unordered_map<int, size_t> place;
    for (size_t k = 0; k < all.size(); ++k) AddPlaces(all[k], k, &place);
    std::vector<int> crossing(all.size() + 1, 0);
    for (const auto& [from, to] : edges) {
      const auto at_from = place.find(from), at_to = place.find(to);
      if (!Shown(from) || at_from == place.end() || at_to == place.end()) continue;
      const auto [low, high] = std::minmax(at_from->second, at_to->second);
      if (low == high) continue;
      ++crossing[low + 1], --crossing[high + 1];
    }
    std::partial_sum(crossing.begin(), crossing.end(), crossing.begin());
    // before[k]: how many of the first k are visible.
    std::vector<size_t> before(all.size() + 1, 0);
    for (size_t k = 0; k < all.size(); ++k) before[k + 1] = before[k] + (Shown(all[k]) ? 1 : 0);
    const size_t shown = before.back();
    const size_t size = std::max((shown + most_ - 1) / most_, std::min(kLeastPiece, shown / 2));
    std::vector<int> groups;
    for (size_t begin = 0; begin < all.size();) {
      size_t end = all.size();
      if (shown - before[begin] >= size + size / 2) {
        int least = INT_MAX;
        size_t nearest = 0;
        for (size_t k = begin + 1; k < all.size(); ++k) {
          const size_t taken = before[k] - before[begin];
          if (taken > size + size / 2 || before[k] == shown) break;
          if (taken < (size + 1) / 2 || !Shown(all[k - 1])) continue;
          const size_t distance = taken > size ? taken - size : size - taken;
          if (crossing[k] > least || (crossing[k] == least && distance >= nearest)) continue;
          least = crossing[k], nearest = distance, end = k;
        }
      }
      groups.push_back(GroupRange(parent, all, begin, end));
      begin = end;
    }
    item(parent).children = groups;
    FoldPieces(groups, edges);
  }

  // Repeats this within sections that are too large, each with its own edges.
  void FoldPieces(const std::vector<int>& pieces, const ScopeEdges& edges) {
    std::unordered_map<int, size_t> place;
    for (size_t k = 0; k < pieces.size(); ++k) AddPlaces(pieces[k], k, &place);
    std::vector<ScopeEdges> inside(pieces.size());
    for (const auto& [from, to] : edges) {
      const auto at_from = place.find(from), at_to = place.find(to);
      if (at_from == place.end() || at_to == place.end() || at_from->second != at_to->second) continue;
      inside[at_from->second].emplace_back(from, to);
    }
    for (size_t k = 0; k < pieces.size(); ++k) {
      if (item(pieces[k]).is_group && CountShown(item(pieces[k]).children) > most_) {
        GroupPieces(pieces[k], inside[k]);
      }
    }
  }

  void AddPlaces(int child, size_t at, std::unordered_map<int, size_t>* place) {
    place->emplace(child, at);
    if (!item(child).is_group) return;
    for (const int member : item(child).children) AddPlaces(member, at, place);
  }

  // The edges between the children of each scope.
  std::vector<ScopeEdges> EdgesInside() {
    std::vector<int> depth(items_.size(), 0);
    for (size_t i = 1; i < items_.size(); ++i) depth[i] = depth[static_cast<size_t>(items_[i].parent)] + 1;
    std::vector<ScopeEdges> inside(items_.size());
    for (const ScopeEdge& edge : tree_.edges) {
      int from = item_of_node_[static_cast<size_t>(edge.from)],
          to = item_of_node_[static_cast<size_t>(edge.to)];
      const auto deep = [&](int i) { return depth[static_cast<size_t>(i)]; };
      while (deep(from) > deep(to)) from = item(from).parent;
      while (deep(to) > deep(from)) to = item(to).parent;
      while (item(from).parent != item(to).parent) from = item(from).parent, to = item(to).parent;
      if (from != to) inside[static_cast<size_t>(item(from).parent)].emplace_back(from, to);
    }
    for (ScopeEdges& edges : inside) {
      std::sort(edges.begin(), edges.end());
      edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    }
    return inside;
  }

  // In the order of a traversal from the root.
  void Renumber() {
    std::vector<int> order = {0};
    for (size_t i = 0; i < order.size(); ++i) {
      const auto& children = item(order[i]).children;
      order.insert(order.end(), children.begin(), children.end());
    }
    std::vector<int> new_id(items_.size());
    for (size_t i = 0; i < order.size(); ++i) new_id[static_cast<size_t>(order[i])] = static_cast<int>(i);
    for (const int old : order) {
      ScopeItem moved = std::move(item(old));
      if (moved.parent >= 0) moved.parent = new_id[static_cast<size_t>(moved.parent)];
      for (int& child : moved.children) child = new_id[static_cast<size_t>(child)];
      tree_.items.push_back(std::move(moved));
    }
    for (const int old : item_of_node_) tree_.item_of_node.push_back(new_id[static_cast<size_t>(old)]);
  }

  const tensorflow::GraphDef& graph_;
  const size_t most_;
  std::vector<ScopeItem> items_;
  std::vector<int> item_of_node_;
  std::unordered_map<std::string_view, int> scopes_;  // by path
  std::unordered_map<int, int> depth_;                // of the children of the scope that is being folded
  ScopeTree tree_;
};

}  // namespace

std::string ScopeTree::PathOf(int item) const {
  std::string path;
  for (int i = item; i > 0; i = items[static_cast<size_t>(i)].parent) {
    const ScopeItem& part = items[static_cast<size_t>(i)];
    if (!part.is_group) path = path.empty() ? part.label : StrCat(part.label, "/", path);
  }
  return path;
}

ScopeTree BuildScopeTree(const tensorflow::GraphDef& graph, size_t most_children) {
  return Builder(graph, most_children).Build();
}

}  // namespace millrace
