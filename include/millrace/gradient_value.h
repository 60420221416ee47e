// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/output.h"

namespace millrace {

// A sparse tensor of rows: row indices[i] has values[i] added, all other rows are zero. The form of the
// gradient of a row lookup.
struct IndexedSlices {
  Output values;       // [n, ...]
  Output indices;      // int32 or int64, [n]; may contain duplicates
  Output dense_shape;  // an integer vector; unset if it is not known

  bool IsSet() const { return values.IsSet(); }
  friend bool operator==(const IndexedSlices&, const IndexedSlices&) = default;
};

// A gradient: a tensor, slices of one, or none. A value.
struct GradientValue {
  GradientValue() = default;
  GradientValue(const Output& tensor) : dense(tensor) {}      // NOLINT(google-explicit-constructor)
  GradientValue(const IndexedSlices& rows) : slices(rows) {}  // NOLINT(google-explicit-constructor)

  bool IsSet() const { return dense.IsSet() || slices.IsSet(); }
  bool IsSlices() const { return slices.IsSet(); }
  // The tensor itself, or the values of the slices.
  const Output& values() const { return IsSlices() ? slices.values : dense; }
  friend bool operator==(const GradientValue&, const GradientValue&) = default;

  Output dense;          // unset for slices
  IndexedSlices slices;  // unset for a tensor
};

}  // namespace millrace
