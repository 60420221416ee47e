// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/status.h"
#include "millrace/tensor.h"

namespace tensorflow {
class TensorProto;
}  // namespace tensorflow

// How the first format of checkpoints holds elements: in the typed list of a TensorProto, each of them, and
// without type and shape.
namespace millrace::io {

// False for types that the format cannot hold: handles and variants.
bool IsSliceType(DataType dtype);
// The most bytes that the elements take in a list.
uint64_t MostListBytes(const Tensor& tensor);
// REQUIRES: IsSliceType, and a list can hold that many elements.
void ElementsToList(const Tensor& tensor, tensorflow::TensorProto* proto);
// Whether the list has that many elements of that type.
bool ListHasElements(const tensorflow::TensorProto& proto, DataType dtype, int64_t n);
// REQUIRES: ListHasElements.
void ElementsFromList(const tensorflow::TensorProto& proto, Tensor* tensor);

}  // namespace millrace::io
