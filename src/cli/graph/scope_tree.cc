// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/graph/scope_tree.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include "base/strings.h"
#include "graph/graph.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace::cli {
namespace {

constexpr size_t kMostDepth = 40;  // scopes in each other; what is deeper is one name
constexpr size_t kMostMissing = 20;

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
    for (int i = 0, n = static_cast<int>(items_.size()); i < n; ++i) Fold(i);
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

  // A node that has the name of a scope stands in that scope.
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
    for (size_t i = items_.size(); i > 1; --i) {
      // Scopes come before what is in them.
      item(items_[i - 1].parent).nodes += items_[i - 1].nodes;
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
      item(member).parent = id;
    }
    return id;
  }

  // Groups children that have a key in common, the largest group first, until there are few enough. `least`
  // children make a group.
  template <typename Key>
  void GroupBy(int parent, size_t least, const Key& key_of) {
    std::map<std::string, std::vector<int>> by_key;
    for (const int child : item(parent).children) {
      if (std::string key = key_of(item(child)); !key.empty()) by_key[std::move(key)].push_back(child);
    }
    std::vector<std::pair<size_t, std::string>> sizes;
    for (const auto& [key, members] : by_key) {
      if (members.size() >= least) sizes.emplace_back(members.size(), key);
    }
    std::stable_sort(sizes.begin(), sizes.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    size_t count = item(parent).children.size();
    std::unordered_map<int, int> group_of;  // the first member stands for the group
    for (const auto& [size, key] : sizes) {
      if (count <= most_) break;
      const std::vector<int>& members = by_key[key];
      const int group = Group(key, members, parent);
      for (const int member : members) group_of[member] = -1;
      group_of[members.front()] = group;
      count -= size - 1;
    }
    std::vector<int> children;
    for (const int child : item(parent).children) {
      const auto group = group_of.find(child);
      if (group == group_of.end()) children.push_back(child);
      if (group != group_of.end() && group->second >= 0) children.push_back(group->second);
    }
    item(parent).children = std::move(children);
  }

  void Fold(int parent) {
    if (item(parent).children.size() <= most_) return;
    const size_t first_group = items_.size();
    // Layers that are numbered; then nodes of one op; then whatever stands together.
    GroupBy(parent, 3, [&](const ScopeItem& child) {
      const std::string_view stem = Stem(child.label);
      return StrCat(stem, stem.size() == child.label.size() ? "" : "_*");
    });
    if (item(parent).children.size() > most_) {
      GroupBy(parent, 2, [&](const ScopeItem& child) {
        return child.node < 0 ? std::string() : graph_.node(child.node).op();
      });
    }
    while (item(parent).children.size() > most_) Chunk(parent);
    for (size_t i = first_group; i < items_.size(); ++i) {
      while (items_[i].children.size() > most_) Chunk(static_cast<int>(i));
    }
  }

  void Chunk(int parent) {
    const std::vector<int> all = item(parent).children;
    std::vector<int> chunks;
    for (size_t begin = 0; begin < all.size(); begin += most_) {
      const size_t end = std::min(begin + most_, all.size());
      const auto at = [&](size_t k) { return all.begin() + static_cast<ptrdiff_t>(k); };
      chunks.push_back(end - begin == 1
                           ? all[begin]
                           : Group(StrCat(item(all[begin]).label, " … ", item(all[end - 1]).label),
                                   std::vector<int>(at(begin), at(end)), parent));
    }
    item(parent).children = std::move(chunks);
  }

  // In the order in which a walk from the root meets them.
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

}  // namespace millrace::cli
