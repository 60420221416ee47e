// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::data {

// A sink for strings. The argument of Add is only valid during the call.
class TextSink {
 public:
  virtual void Add(std::string_view text) = 0;

 protected:
  ~TextSink() = default;
};

// Consecutive strings in one block of memory, which Clear keeps.
class Texts final : public TextSink {
 public:
  void Add(std::string_view text) override {
    bytes_.append(text);
    ends_.push_back(bytes_.size());
  }
  void Clear() {
    bytes_.clear();
    ends_.clear();
  }
  size_t size() const { return ends_.size(); }
  // Until the next change.
  const std::vector<std::string_view>& views() {
    views_.clear();
    size_t begin = 0;
    for (const size_t end : ends_) {
      views_.push_back(std::string_view(bytes_).substr(begin, end - begin));
      begin = end;
    }
    return views_;
  }

 private:
  std::string bytes_;
  std::vector<size_t> ends_;
  std::vector<std::string_view> views_;
};

}  // namespace millrace::data
