// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/name_table.h"

#include <random>
#include <utility>

#include "base/hash.h"

namespace millrace {

uint32_t NameTable::Hash(std::string_view name) {
  static const uint64_t seed = uint64_t{std::random_device()()} << 32 | std::random_device()();
  return static_cast<uint32_t>(Hash64(name, seed) >> 32);
}

void NameTable::Put(Slot slot) {
  size_t i = slot.hash & mask();
  while (slots_[i].number >= 0) i = (i + 1) & mask();
  slots_[i] = slot;
}

void NameTable::Rehash(size_t slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots));
  for (const Slot& slot : old) {
    if (slot.number >= 0) Put(slot);
  }
}

void NameTable::Reserve(size_t count) {
  size_t slots = 16;
  while (slots * 3 / 4 < count) slots *= 2;
  if (slots > slots_.size()) Rehash(slots);
}

void NameTable::Insert(std::string_view name, int number) {
  if ((size_ + 1) * 4 > slots_.size() * 3) Rehash(slots_.empty() ? 16 : slots_.size() * 2);
  Put({Hash(name), number});
  ++size_;
}

void NameTable::Erase(std::string_view name, int number) {
  size_t hole = Hash(name) & mask();
  while (slots_[hole].number != number) hole = (hole + 1) & mask();
  // Entries behind the hole move up when the hole lies between their home and where they are.
  for (size_t i = (hole + 1) & mask(); slots_[i].number >= 0; i = (i + 1) & mask()) {
    const size_t home = slots_[i].hash & mask();
    if (((i - home) & mask()) < ((i - hole) & mask())) continue;
    slots_[hole] = slots_[i];
    hole = i;
  }
  slots_[hole] = Slot();
  --size_;
}

}  // namespace millrace
