// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Temporary memory of the inner loops.
#pragma once

#include <cstdint>

namespace millrace::cpu {

// A block of temporary memory, aligned to 64 bytes, held until the end of the scope. The thread that releases
// blocks keeps a few of moderate size, so that repeated work allocates nothing. Scopes may
// nest: a thread that runs another kernel while it waits for its own gets other blocks. Contents are
// undefined.
class Scratch {
 public:
  // `count` elements of T. Check ok(): memory may be short.
  template <typename T>
  static Scratch Of(int64_t count) {
    return Scratch(count, sizeof(T));
  }
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  bool ok() const { return data_ != nullptr; }
  template <typename T>
  T* data() const {
    return static_cast<T*>(data_);
  }

 private:
  Scratch(int64_t count, int64_t element_size);

  void* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace millrace::cpu
