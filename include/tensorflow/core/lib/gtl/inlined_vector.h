// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// A vector under TensorFlow's name. Its elements are never in the object itself.
#ifndef TENSORFLOW_CORE_LIB_GTL_INLINED_VECTOR_H_
#define TENSORFLOW_CORE_LIB_GTL_INLINED_VECTOR_H_

#include <vector>

namespace tensorflow {
namespace gtl {

template <typename T, int N>
using InlinedVector = std::vector<T>;

}  // namespace gtl
}  // namespace tensorflow

#endif
