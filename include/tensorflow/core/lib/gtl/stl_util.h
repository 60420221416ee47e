// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Helpers for standard containers of pointers.
#ifndef TENSORFLOW_CORE_LIB_GTL_STL_UTIL_H_
#define TENSORFLOW_CORE_LIB_GTL_STL_UTIL_H_

namespace tensorflow {
namespace gtl {

// Deletes what the elements point to, and empties the container.
template <typename Container>
void STLDeleteElements(Container* container) {
  if (container == nullptr) return;
  for (auto* element : *container) delete element;
  container->clear();
}
template <typename Map>
void STLDeleteValues(Map* map) {
  if (map == nullptr) return;
  for (auto& entry : *map) delete entry.second;
  map->clear();
}

}  // namespace gtl
}  // namespace tensorflow

#endif
