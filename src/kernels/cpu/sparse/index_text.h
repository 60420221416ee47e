// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace {

// The error of an index that is less than the previous one.
inline constexpr char kOutOfOrder[] =
    " is out of order. Many sparse ops require sorted indices.\n"
    "    Use `tf.sparse.reorder` to create a correctly ordered copy.\n\n";

}  // namespace millrace
