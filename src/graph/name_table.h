// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace millrace {

// An index from name to number that does not store the names: a function of the caller returns the name of a
// number. Eight bytes a slot, at most 3/4 full. Hashes have a random seed in each process, so that a graph
// can't be made to collide.
class NameTable {
 public:
  // The number under `name`, or -1. `name_of(int)` gives the name of a number that was inserted.
  template <typename NameOf>
  int Find(std::string_view name, const NameOf& name_of) const {
    if (slots_.empty()) return -1;
    const uint32_t hash = Hash(name);
    for (size_t i = hash & mask();; i = (i + 1) & mask()) {
      const Slot& slot = slots_[i];
      if (slot.number < 0) return -1;
      if (slot.hash == hash && name_of(slot.number) == name) return slot.number;
    }
  }
  // REQUIRES: the name is not in the table; number >= 0.
  void Insert(std::string_view name, int number);
  // REQUIRES: the pair was inserted.
  void Erase(std::string_view name, int number);
  void Reserve(size_t count);

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t number = -1;
  };
  static uint32_t Hash(std::string_view name);
  size_t mask() const { return slots_.size() - 1; }
  void Rehash(size_t slots);
  void Put(Slot slot);

  std::vector<Slot> slots_;  // a power of two of them, or none
  size_t size_ = 0;
};

}  // namespace millrace
