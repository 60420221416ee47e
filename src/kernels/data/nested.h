// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Iterators of datasets that a function returns for each element.
#pragma once

#include <memory>
#include <string_view>

#include "data/dataset.h"
#include "data/function.h"

namespace millrace::data {

// The arguments of the function that made a dataset, the dataset, and a position in it. The arguments are
// kept so that the position can be saved: the function makes the dataset again.
class Nested {
 public:
  // Starts at the first element. InvalidArgument if `f` returns no dataset of these types.
  static StatusOr<std::unique_ptr<Nested>> Open(Context& ctx, const Callable& f, Element args,
                                                const std::vector<DataType>& types);
  Status GetNext(Context& ctx, Element* out, bool* end) { return iterator_->GetNext(ctx, out, end); }
  bool MayWait(int64_t n) const { return iterator_->MayWait(n); }
  Status Save(Context& ctx, std::string_view name, StateWriter& state);
  static StatusOr<std::unique_ptr<Nested>> Restore(Context& ctx, std::string_view name,
                                                   const StateReader& state, const Callable& f,
                                                   const std::vector<DataType>& types);

 private:
  Element args_;
  RefPtr<const Dataset> dataset_;
  std::unique_ptr<Iterator> iterator_;
};

}  // namespace millrace::data
