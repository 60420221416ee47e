// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace {

class Node;

// One tensor of a graph: output `index` of `node`. A value; the graph owns the node. Unset (no node) if a
// tensor is optional, for example a gradient that does not exist.
struct Output {
  Node* node = nullptr;
  int index = 0;

  bool IsSet() const { return node != nullptr; }
  friend bool operator==(const Output&, const Output&) = default;
};

}  // namespace millrace
