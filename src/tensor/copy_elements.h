// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/tensor.h"

namespace millrace {

// Copies all elements of `from` into `to` from element `begin` on. REQUIRES: plain types or strings; the
// types agree, and `to` has room.
void CopyElements(const Tensor& from, int64_t begin, Tensor& to);

}  // namespace millrace
