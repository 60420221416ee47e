// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Element types, and the corresponding C++ types.
#ifndef TENSORFLOW_CORE_FRAMEWORK_TYPES_H_
#define TENSORFLOW_CORE_FRAMEWORK_TYPES_H_

#include <ostream>
#include <vector>

#include "tensorflow/c/c_api.h"
#include "tensorflow/core/platform/types.h"

namespace tensorflow {

enum DataType {
  DT_INVALID = 0,
  DT_FLOAT = TF_FLOAT,
  DT_DOUBLE = TF_DOUBLE,
  DT_INT32 = TF_INT32,
  DT_UINT8 = TF_UINT8,
  DT_INT16 = TF_INT16,
  DT_INT8 = TF_INT8,
  DT_STRING = TF_STRING,
  DT_COMPLEX64 = TF_COMPLEX64,
  DT_INT64 = TF_INT64,
  DT_BOOL = TF_BOOL,
  DT_QINT8 = TF_QINT8,
  DT_QUINT8 = TF_QUINT8,
  DT_QINT32 = TF_QINT32,
  DT_BFLOAT16 = TF_BFLOAT16,
  DT_QINT16 = TF_QINT16,
  DT_QUINT16 = TF_QUINT16,
  DT_UINT16 = TF_UINT16,
  DT_COMPLEX128 = TF_COMPLEX128,
  DT_HALF = TF_HALF,
  DT_RESOURCE = TF_RESOURCE,
  DT_VARIANT = TF_VARIANT,
  DT_UINT32 = TF_UINT32,
  DT_UINT64 = TF_UINT64
};
using DataTypeVector = std::vector<DataType>;
using DataTypeSlice = DataTypeVector;

// The kinds of devices for which kernels are registered.
static const char* const DEVICE_CPU = "CPU";
static const char* const DEVICE_GPU = "GPU";

template <typename T>
struct DataTypeToEnum;
template <DataType V>
struct EnumToDataType;
namespace internal {
// A template, because its static members may be defined in headers before C++17.
template <DataType V>
struct TypeConstant {
  static DataType v() { return V; }
  static constexpr DataType value = V;
};
#if __cplusplus < 201703L
template <DataType V>
constexpr DataType TypeConstant<V>::value;
#endif
}  // namespace internal
#define MR_TF_TYPE(Cpp, ENUM)                                   \
  template <>                                                   \
  struct DataTypeToEnum<Cpp> : internal::TypeConstant<ENUM> {}; \
  template <>                                                   \
  struct EnumToDataType<ENUM> {                                 \
    using Type = Cpp;                                           \
  };
MR_TF_TYPE(float, DT_FLOAT)
MR_TF_TYPE(double, DT_DOUBLE)
MR_TF_TYPE(int32, DT_INT32)
MR_TF_TYPE(uint8, DT_UINT8)
MR_TF_TYPE(int16, DT_INT16)
MR_TF_TYPE(int8, DT_INT8)
MR_TF_TYPE(string, DT_STRING)
MR_TF_TYPE(complex64, DT_COMPLEX64)
MR_TF_TYPE(int64, DT_INT64)
MR_TF_TYPE(bool, DT_BOOL)
MR_TF_TYPE(uint16, DT_UINT16)
MR_TF_TYPE(complex128, DT_COMPLEX128)
MR_TF_TYPE(uint32, DT_UINT32)
MR_TF_TYPE(uint64, DT_UINT64)
#undef MR_TF_TYPE
// As std::int64_t, which is a different type from TensorFlow's if it is a long.
template <>
struct DataTypeToEnum<long> : internal::TypeConstant<DT_INT64> {};

inline string DataTypeString(DataType dtype) {
  switch (dtype) {
    case DT_FLOAT:
      return "float";
    case DT_DOUBLE:
      return "double";
    case DT_INT32:
      return "int32";
    case DT_UINT8:
      return "uint8";
    case DT_INT16:
      return "int16";
    case DT_INT8:
      return "int8";
    case DT_STRING:
      return "string";
    case DT_COMPLEX64:
      return "complex64";
    case DT_INT64:
      return "int64";
    case DT_BOOL:
      return "bool";
    case DT_QINT8:
      return "qint8";
    case DT_QUINT8:
      return "quint8";
    case DT_QINT32:
      return "qint32";
    case DT_BFLOAT16:
      return "bfloat16";
    case DT_QINT16:
      return "qint16";
    case DT_QUINT16:
      return "quint16";
    case DT_UINT16:
      return "uint16";
    case DT_COMPLEX128:
      return "complex128";
    case DT_HALF:
      return "half";
    case DT_RESOURCE:
      return "resource";
    case DT_VARIANT:
      return "variant";
    case DT_UINT32:
      return "uint32";
    case DT_UINT64:
      return "uint64";
    case DT_INVALID:
      break;
  }
  return "INVALID";
}
inline int DataTypeSize(DataType dtype) {
  return static_cast<int>(TF_DataTypeSize(static_cast<TF_DataType>(dtype)));
}

}  // namespace tensorflow

#endif
