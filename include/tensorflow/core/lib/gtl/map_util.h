// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Look-ups in maps and sets.
#ifndef TENSORFLOW_CORE_LIB_GTL_MAP_UTIL_H_
#define TENSORFLOW_CORE_LIB_GTL_MAP_UTIL_H_

#include <utility>

namespace tensorflow {
namespace gtl {

// The value at the key, or null.
template <typename Map>
const typename Map::mapped_type* FindOrNull(const Map& map, const typename Map::key_type& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}
template <typename Map>
typename Map::mapped_type* FindOrNull(Map& map, const typename Map::key_type& key) {  // NOLINT
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}
// The pointer at the key, or null.
template <typename Map>
typename Map::mapped_type FindPtrOrNull(const Map& map, const typename Map::key_type& key) {
  const auto found = map.find(key);
  return found == map.end() ? typename Map::mapped_type() : found->second;
}
template <typename Map>
const typename Map::mapped_type& FindWithDefault(const Map& map, const typename Map::key_type& key,
                                                 const typename Map::mapped_type& value) {
  const auto found = map.find(key);
  return found == map.end() ? value : found->second;
}
// Returns whether the key was new.
template <typename Map>
bool InsertOrUpdate(Map* map, const typename Map::key_type& key, const typename Map::mapped_type& value) {
  const auto inserted = map->insert(std::make_pair(key, value));
  if (!inserted.second) inserted.first->second = value;
  return inserted.second;
}
template <typename Map>
bool InsertIfNotPresent(Map* map, const typename Map::key_type& key, const typename Map::mapped_type& value) {
  return map->insert(std::make_pair(key, value)).second;
}
template <typename Map>
typename Map::mapped_type& LookupOrInsert(Map* map, const typename Map::key_type& key,
                                          const typename Map::mapped_type& value) {
  return map->insert(std::make_pair(key, value)).first->second;
}

}  // namespace gtl
}  // namespace tensorflow

#endif
