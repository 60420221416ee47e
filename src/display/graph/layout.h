// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace millrace {

struct LayoutPoint {
  double x = 0, y = 0;
};

struct LayoutBox {
  // Boxes in the first or the last layer are where edges from outside come in or leave.
  enum class Pin { kNone, kFirst, kLast };
  double width = 0, height = 0;
  Pin pin = Pin::kNone;
  double x = 0, y = 0;  // result: the upper left corner
};

struct LayoutEdge {
  int from = 0, to = 0;            // boxes; not the same
  std::vector<LayoutPoint> route;  // result: from the lower edge of `from` to the upper edge of `to`
};

// A drawing in layers, sources on top: edges go down except for those that close a cycle; boxes do not
// overlap; parts that have nothing to do with each other stand side by side. Time is about linear in boxes
// and edges plus the length of edges in layers, which is bounded: beyond that edges are drawn straight.
// `boxes` and `edges` get their results; the size of all is returned as a point.
LayoutPoint LayOut(std::vector<LayoutBox>* boxes, std::vector<LayoutEdge>* edges);

}  // namespace millrace
