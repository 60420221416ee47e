// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Layers by the longest path, crossings reduced by the places of neighbours, places by least squares.
// layout.js of the page has the same algorithm.
#include "display/graph/layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace millrace {
namespace {

constexpr double kColumnGap = 18, kRowGap = 46, kPinGap = 16, kPartGap = 34;
constexpr double kWaypointWidth = 8;
constexpr int kOrderSweeps = 8, kPlaceSweeps = 8;
constexpr size_t kMostWaypoints = 20'000;

// One connected part.
class Layers {
 public:
  Layers(std::vector<LayoutBox>* boxes, std::vector<LayoutEdge>* edges, std::vector<int> members,
         const std::vector<int>& part_edges, std::vector<int>* place)
      : boxes_(*boxes), edges_(*edges), members_(std::move(members)) {
    for (size_t i = 0; i < members_.size(); ++i)
      (*place)[static_cast<size_t>(members_[i])] = static_cast<int>(i);
    for (const int e : part_edges) {
      const LayoutEdge& edge = edges_[static_cast<size_t>(e)];
      arcs_.push_back(
          {e, (*place)[static_cast<size_t>(edge.from)], (*place)[static_cast<size_t>(edge.to)], {}});
    }
  }

  // Places the boxes from (0, 0) on. Returns the size.
  LayoutPoint Run() {
    BreakCycles();
    Rank();
    AddWaypoints();
    Order();
    PlaceColumns();
    return PlaceRows();
  }

 private:
  struct Arc {
    int edge, from, to;      // from < to in rank; back edges are reversed
    std::vector<int> chain;  // nodes from `from` to `to`, waypoints between; empty: straight
    bool reversed = false;
  };
  struct Node {
    double width = 0;
    int rank = 0;
    std::vector<int> up, down;  // neighbours in the next layers
    double x = 0;               // of the middle
  };
  size_t num_boxes() const { return members_.size(); }
  LayoutBox& box(size_t i) { return boxes_[static_cast<size_t>(members_[i])]; }

  // Arcs that lead back to a node on the current path are reversed.
  void BreakCycles() {
    std::vector<std::vector<size_t>> out(num_boxes());
    std::vector<int> fan_in(num_boxes(), 0);
    for (size_t a = 0; a < arcs_.size(); ++a) {
      out[static_cast<size_t>(arcs_[a].from)].push_back(a);
      ++fan_in[static_cast<size_t>(arcs_[a].to)];
    }
    std::vector<char> state(num_boxes(), 0);  // 1: on the current path, 2: done
    const auto walk = [&](size_t root) {
      std::vector<std::pair<size_t, size_t>> way = {{root, 0}};
      state[root] = 1;
      while (!way.empty()) {
        auto& [node, next] = way.back();
        if (next == out[node].size()) {
          state[node] = 2;
          way.pop_back();
          continue;
        }
        Arc& arc = arcs_[out[node][next++]];
        const auto to = static_cast<size_t>(arc.to);
        if (state[to] == 1) arc.reversed = true;
        if (state[to] == 0) state[to] = 1, way.emplace_back(to, 0);
      }
    };
    for (size_t i = 0; i < num_boxes(); ++i) {
      if (fan_in[i] == 0 && state[i] == 0) walk(i);
    }
    for (size_t i = 0; i < num_boxes(); ++i) {
      if (state[i] == 0) walk(i);
    }
    for (Arc& arc : arcs_) {
      if (arc.reversed) std::swap(arc.from, arc.to);
    }
  }

  // The longest path from a source; then sources move down to just above the first that uses them.
  void Rank() {
    nodes_.resize(num_boxes());
    std::vector<std::vector<int>> out(num_boxes());
    std::vector<int> left(num_boxes(), 0), fan_in;
    for (const Arc& arc : arcs_) {
      out[static_cast<size_t>(arc.from)].push_back(arc.to);
      ++left[static_cast<size_t>(arc.to)];
    }
    fan_in = left;
    std::vector<int> ready;
    for (size_t i = 0; i < num_boxes(); ++i) {
      nodes_[i].width = box(i).width;
      if (left[i] == 0) ready.push_back(static_cast<int>(i));
    }
    for (size_t k = 0; k < ready.size(); ++k) {
      const auto from = static_cast<size_t>(ready[k]);
      for (const int to : out[from]) {
        Node& node = nodes_[static_cast<size_t>(to)];
        node.rank = std::max(node.rank, nodes_[from].rank + 1);
        if (--left[static_cast<size_t>(to)] == 0) ready.push_back(to);
      }
    }
    int last = 0;
    for (const Node& node : nodes_) last = std::max(last, node.rank);
    for (size_t i = 0; i < num_boxes(); ++i) {
      if (box(i).pin == LayoutBox::Pin::kLast) nodes_[i].rank = last;
      if (fan_in[i] != 0 || out[i].empty() || box(i).pin == LayoutBox::Pin::kFirst) continue;
      int nearest = nodes_[static_cast<size_t>(out[i][0])].rank;
      for (const int to : out[i]) nearest = std::min(nearest, nodes_[static_cast<size_t>(to)].rank);
      nodes_[i].rank = nearest - 1;
    }
  }

  void AddWaypoints() {
    for (Arc& arc : arcs_) {
      const int from = nodes_[static_cast<size_t>(arc.from)].rank,
                to = nodes_[static_cast<size_t>(arc.to)].rank;
      const auto length = static_cast<size_t>(to - from - 1);
      if (nodes_.size() - num_boxes() + length > kMostWaypoints) continue;
      arc.chain.push_back(arc.from);
      for (int rank = from + 1; rank < to; ++rank) {
        arc.chain.push_back(static_cast<int>(nodes_.size()));
        Node waypoint;
        waypoint.width = kWaypointWidth;
        waypoint.rank = rank;
        nodes_.push_back(std::move(waypoint));
      }
      arc.chain.push_back(arc.to);
      for (size_t i = 0; i + 1 < arc.chain.size(); ++i) {
        nodes_[static_cast<size_t>(arc.chain[i])].down.push_back(arc.chain[i + 1]);
        nodes_[static_cast<size_t>(arc.chain[i + 1])].up.push_back(arc.chain[i]);
      }
    }
    int last = 0;
    for (const Node& node : nodes_) last = std::max(last, node.rank);
    layers_.resize(static_cast<size_t>(last) + 1);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      layers_[static_cast<size_t>(nodes_[i].rank)].push_back(static_cast<int>(i));
    }
  }

  // Each layer is sorted by the mean place of its neighbours in the layer before, from above and from below
  // in turn. `x` is the current position.
  void Order() {
    const auto number = [&](const std::vector<int>& layer) {
      for (size_t i = 0; i < layer.size(); ++i) {
        nodes_[static_cast<size_t>(layer[i])].x =
            (static_cast<double>(i) + 0.5) / static_cast<double>(layer.size());
      }
    };
    for (const auto& layer : layers_) number(layer);
    std::vector<double> wanted(nodes_.size());
    for (int sweep = 0; sweep < kOrderSweeps; ++sweep) {
      const bool down = sweep % 2 == 0;
      for (size_t k = 0; k < layers_.size(); ++k) {
        auto& layer = layers_[down ? k : layers_.size() - 1 - k];
        for (const int i : layer) {
          const Node& node = nodes_[static_cast<size_t>(i)];
          wanted[static_cast<size_t>(i)] = Mean(down ? node.up : node.down, node.x);
        }
        std::stable_sort(layer.begin(), layer.end(), [&](int a, int b) {
          return wanted[static_cast<size_t>(a)] < wanted[static_cast<size_t>(b)];
        });
        number(layer);
      }
    }
  }

  double Mean(const std::vector<int>& neighbours, double otherwise) const {
    if (neighbours.empty()) return otherwise;
    double sum = 0;
    for (const int i : neighbours) sum += nodes_[static_cast<size_t>(i)].x;
    return sum / static_cast<double>(neighbours.size());
  }

  void PlaceColumns() {
    for (const auto& layer : layers_) {
      double at = 0;
      for (const int i : layer) {
        Node& node = nodes_[static_cast<size_t>(i)];
        node.x = at + node.width / 2;
        at += node.width + kColumnGap;
      }
      for (const int i : layer) nodes_[static_cast<size_t>(i)].x -= at / 2;
    }
    for (int sweep = 0; sweep < kPlaceSweeps; ++sweep) {
      for (size_t k = 0; k < layers_.size(); ++k) {
        PlaceLayer(layers_[sweep % 2 == 0 ? k : layers_.size() - 1 - k]);
      }
    }
  }

  // As near as possible to the middle of their neighbours, with the given order and gaps: after subtracting
  // the widths to the left of each this is isotonic regression, solved by pooling.
  void PlaceLayer(const std::vector<int>& layer) {
    struct Pool {
      double sum, weight;
      size_t end;
      double mean() const { return sum / weight; }
    };
    std::vector<Pool> pools;
    std::vector<double> left(layer.size());
    double at = 0;
    for (size_t k = 0; k < layer.size(); ++k) {
      const Node& node = nodes_[static_cast<size_t>(layer[k])];
      left[k] = at + node.width / 2;
      at += node.width + kColumnGap;
      const bool waypoint = static_cast<size_t>(layer[k]) >= num_boxes();
      const auto up = static_cast<double>(node.up.size()), down = static_cast<double>(node.down.size());
      double wanted = node.x;
      if (up + down > 0) wanted = (Mean(node.up, 0) * up + Mean(node.down, 0) * down) / (up + down);
      // Long edges are straight before boxes are in the middle.
      const double weight = waypoint ? 4 : 1;
      pools.push_back({(wanted - left[k]) * weight, weight, k + 1});
      while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
        const Pool last = pools.back();
        pools.pop_back();
        pools.back() = {pools.back().sum + last.sum, pools.back().weight + last.weight, last.end};
      }
    }
    size_t k = 0;
    for (const Pool& pool : pools) {
      for (; k < pool.end; ++k) nodes_[static_cast<size_t>(layer[k])].x = left[k] + pool.mean();
    }
  }

  LayoutPoint PlaceRows() {
    double least = 0, most = 0;
    for (const Node& node : nodes_) {
      least = std::min(least, node.x - node.width / 2), most = std::max(most, node.x + node.width / 2);
    }
    std::vector<double> tops, heights;
    double at = 0;
    for (const auto& layer : layers_) {
      double height = 0;
      for (const int i : layer) {
        if (static_cast<size_t>(i) < num_boxes())
          height = std::max(height, box(static_cast<size_t>(i)).height);
      }
      // Layers of nothing but pins need no room for arrows.
      if (!heights.empty()) at += height == 0 || heights.back() == 0 ? kPinGap : kRowGap;
      tops.push_back(at), heights.push_back(height);
      at += height;
    }
    for (size_t i = 0; i < num_boxes(); ++i) {
      const auto rank = static_cast<size_t>(nodes_[i].rank);
      box(i).x = nodes_[i].x - least - box(i).width / 2;
      box(i).y = tops[rank] + (heights[rank] - box(i).height) / 2;
    }
    for (const Arc& arc : arcs_) RouteArc(arc, least, tops, heights);
    return {most - least, at};
  }

  void RouteArc(const Arc& arc, double least, const std::vector<double>& tops,
                const std::vector<double>& heights) {
    std::vector<LayoutPoint>& route = edges_[static_cast<size_t>(arc.edge)].route;
    const LayoutBox &from = box(static_cast<size_t>(arc.from)), &to = box(static_cast<size_t>(arc.to));
    route.push_back({from.x + from.width / 2, from.y + from.height});
    for (size_t i = 1; i + 1 < arc.chain.size(); ++i) {
      const Node& node = nodes_[static_cast<size_t>(arc.chain[i])];
      const auto rank = static_cast<size_t>(node.rank);
      // Passes the whole layer, so that a tall box beside it is not crossed.
      route.push_back({node.x - least, tops[rank]});
      route.push_back({node.x - least, tops[rank] + heights[rank]});
    }
    route.push_back({to.x + to.width / 2, to.y});
    if (arc.reversed) std::reverse(route.begin(), route.end());
  }

  std::vector<LayoutBox>& boxes_;
  std::vector<LayoutEdge>& edges_;
  const std::vector<int> members_;
  std::vector<Arc> arcs_;
  std::vector<Node> nodes_;  // boxes, then waypoints
  std::vector<std::vector<int>> layers_;
};

struct Part {
  std::vector<int> boxes;
  std::vector<int> edges;
  LayoutPoint size;
};

std::vector<Part> FindParts(size_t num_boxes, const std::vector<LayoutEdge>& edges) {
  std::vector<int> leader(num_boxes);
  std::iota(leader.begin(), leader.end(), 0);
  const auto find = [&](int i) {
    while (leader[static_cast<size_t>(i)] != i) {
      int& above = leader[static_cast<size_t>(i)];
      above = leader[static_cast<size_t>(above)];
      i = above;
    }
    return i;
  };
  for (const LayoutEdge& edge : edges) {
    const int a = find(edge.from), b = find(edge.to);
    leader[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
  }
  std::vector<int> part_of(num_boxes, -1);
  std::vector<Part> parts;
  for (size_t i = 0; i < num_boxes; ++i) {
    int& part = part_of[static_cast<size_t>(find(static_cast<int>(i)))];
    if (part < 0) part = static_cast<int>(parts.size()), parts.emplace_back();
    parts[static_cast<size_t>(part)].boxes.push_back(static_cast<int>(i));
  }
  for (size_t e = 0; e < edges.size(); ++e) {
    const auto part = static_cast<size_t>(part_of[static_cast<size_t>(find(edges[e].from))]);
    parts[part].edges.push_back(static_cast<int>(e));
  }
  return parts;
}

// Rows of parts, the tallest first, about as wide as a screen is.
LayoutPoint Pack(std::vector<LayoutBox>* boxes, std::vector<LayoutEdge>* edges, std::vector<Part>* parts) {
  std::stable_sort(parts->begin(), parts->end(),
                   [](const Part& a, const Part& b) { return a.size.y > b.size.y; });
  double area = 0, widest = 0;
  for (const Part& part : *parts) {
    area += (part.size.x + kPartGap) * (part.size.y + kPartGap);
    widest = std::max(widest, part.size.x);
  }
  const double line = std::max(widest, std::sqrt(area * 1.6));
  LayoutPoint at, size;
  double row = 0;
  for (const Part& part : *parts) {
    if (at.x > 0 && at.x + part.size.x > line) at = {0, at.y + row + kPartGap}, row = 0;
    for (const int i : part.boxes) {
      LayoutBox& box = (*boxes)[static_cast<size_t>(i)];
      box.x += at.x, box.y += at.y;
    }
    for (const int e : part.edges) {
      for (LayoutPoint& point : (*edges)[static_cast<size_t>(e)].route) point.x += at.x, point.y += at.y;
    }
    size.x = std::max(size.x, at.x + part.size.x);
    size.y = std::max(size.y, at.y + part.size.y);
    row = std::max(row, part.size.y);
    at.x += part.size.x + kPartGap;
  }
  return size;
}

}  // namespace

LayoutPoint LayOut(std::vector<LayoutBox>* boxes, std::vector<LayoutEdge>* edges) {
  std::vector<Part> parts = FindParts(boxes->size(), *edges);
  std::vector<int> place(boxes->size(), 0);
  for (Part& part : parts) part.size = Layers(boxes, edges, part.boxes, part.edges, &place).Run();
  return Pack(boxes, edges, &parts);
}

}  // namespace millrace
