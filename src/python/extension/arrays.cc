// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "python/extension/arrays.h"

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

namespace millrace::python {
namespace {

constexpr size_t kCopyBelow = size_t{1} << 16;  // smaller arrays are copied: cheaper than keeping them
constexpr int kReference = 100;                 // the offset of a reference type from its value type
constexpr uintptr_t kAlignment = 16;            // what TF_NewTensor needs to take memory over

int custom_types[64];  // NumPy's number by the engine's; 0: none

int NumpyTypeOf(int dtype) {
  switch (dtype) {
    case TF_FLOAT:
      return NPY_FLOAT;
    case TF_DOUBLE:
      return NPY_DOUBLE;
    case TF_INT32:
    case TF_QINT32:
      return NPY_INT32;
    case TF_UINT8:
    case TF_QUINT8:
    case TF_RESOURCE:
    case TF_VARIANT:
      return NPY_UINT8;
    case TF_INT16:
    case TF_QINT16:
      return NPY_INT16;
    case TF_INT8:
    case TF_QINT8:
      return NPY_INT8;
    case TF_STRING:
      return NPY_OBJECT;
    case TF_COMPLEX64:
      return NPY_CFLOAT;
    case TF_INT64:
      return NPY_INT64;
    case TF_BOOL:
      return NPY_BOOL;
    case TF_UINT16:
    case TF_QUINT16:
      return NPY_UINT16;
    case TF_COMPLEX128:
      return NPY_CDOUBLE;
    case TF_HALF:
      return NPY_HALF;
    case TF_UINT32:
      return NPY_UINT32;
    case TF_UINT64:
      return NPY_UINT64;
    default:
      return dtype > 0 && dtype < 64 && custom_types[dtype] != 0 ? custom_types[dtype] : -1;
  }
}

// The engine's type of a structured type with one field: quantised numbers.
int TypeOfField(PyArray_Descr* descr) {
  if (!PyDataType_HASFIELDS(descr) || PyTuple_GET_SIZE(descr->names) != 1) return -1;
  PyObject* name = PyTuple_GET_ITEM(descr->names, 0);
  static constexpr std::pair<const char*, int> kNames[] = {{"qint8", TF_QINT8},   {"quint8", TF_QUINT8},
                                                           {"qint16", TF_QINT16}, {"quint16", TF_QUINT16},
                                                           {"qint32", TF_QINT32}, {"resource", TF_RESOURCE}};
  for (const auto& [text, type] : kNames) {
    if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, text) == 0) return type;
  }
  return -1;
}

int TypeOfArray(PyArrayObject* array) {
  PyArray_Descr* descr = PyArray_DESCR(array);
  switch (descr->type_num) {
    case NPY_FLOAT:
      return TF_FLOAT;
    case NPY_DOUBLE:
      return TF_DOUBLE;
    case NPY_HALF:
      return TF_HALF;
    case NPY_BOOL:
      return TF_BOOL;
    case NPY_CFLOAT:
      return TF_COMPLEX64;
    case NPY_CDOUBLE:
      return TF_COMPLEX128;
    case NPY_OBJECT:
    case NPY_STRING:
    case NPY_UNICODE:
      return TF_STRING;
    case NPY_VOID:
      return TypeOfField(descr);
    default:
      break;
  }
  if (PyTypeNum_ISSIGNED(descr->type_num)) {
    constexpr int kTypes[] = {0, TF_INT8, TF_INT16, 0, TF_INT32, 0, 0, 0, TF_INT64};
    return descr->elsize <= 8 ? kTypes[descr->elsize] : -1;
  }
  if (PyTypeNum_ISUNSIGNED(descr->type_num)) {
    constexpr int kTypes[] = {0, TF_UINT8, TF_UINT16, 0, TF_UINT32, 0, 0, 0, TF_UINT64};
    return descr->elsize <= 8 ? kTypes[descr->elsize] : -1;
  }
  for (int type = 0; type < 64; ++type) {
    if (custom_types[type] != 0 && custom_types[type] == descr->type_num) return type;
  }
  return -1;
}

// --- Objects to be released by a thread that holds the GIL.

std::mutex waiting_mu;
std::vector<PyObject*>* waiting = new std::vector<PyObject*>();

void ReleaseArray(void* /*data*/, size_t /*size*/, void* array) { FreeLater(static_cast<PyObject*>(array)); }

std::vector<int64_t> SizesOfArray(PyArrayObject* array) {
  const npy_intp* dims = PyArray_DIMS(array);
  return std::vector<int64_t>(dims, dims + PyArray_NDIM(array));
}

// --- Strings

// The bytes of an element, which `keep` holds; false with an exception.
bool StringOf(PyObject* object, Ref* keep, std::string_view* text) {
  if (PyBytes_Check(object)) {
    *text = {PyBytes_AS_STRING(object), static_cast<size_t>(PyBytes_GET_SIZE(object))};
    return true;
  }
  if (PyUnicode_Check(object)) {
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(object, &size);
    if (data == nullptr) return false;
    *text = {data, static_cast<size_t>(size)};
    return true;
  }
  if (PyByteArray_Check(object)) {
    *keep = Ref(PyBytes_FromObject(object));
    return *keep && StringOf(keep->get(), keep, text);
  }
  PyErr_Format(PyExc_TypeError, "Unsupported object type %s", Py_TYPE(object)->tp_name);
  return false;
}

struct Strings {
  std::vector<Ref> keep;
  std::vector<std::string_view> texts;
};

bool CollectStrings(PyArrayObject* array, Strings* strings) {
  const Ref iterator(PyArray_IterNew(reinterpret_cast<PyObject*>(array)));
  if (!iterator) return false;
  auto* it = reinterpret_cast<PyArrayIterObject*>(iterator.get());
  while (PyArray_ITER_NOTDONE(it)) {
    Ref item(PyArray_GETITEM(array, static_cast<const char*>(PyArray_ITER_DATA(it))));
    if (!item) return false;
    Ref kept;
    std::string_view text;
    if (!StringOf(item.get(), &kept, &text)) return false;
    strings->keep.push_back(kept ? std::move(kept) : std::move(item));
    strings->texts.push_back(text);
    PyArray_ITER_NEXT(it);
  }
  return true;
}

TF_Tensor* TensorOfStrings(PyArrayObject* array) {
  Strings strings;
  if (!CollectStrings(array, &strings)) return nullptr;
  const std::vector<int64_t> dims = SizesOfArray(array);
  size_t size = strings.texts.size() * sizeof(uint64_t);
  for (const std::string_view text : strings.texts) size += TF_StringEncodedSize(text.size());
  TF_Tensor* tensor = TF_AllocateTensor(TF_STRING, dims.data(), static_cast<int>(dims.size()), size);
  if (tensor == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  auto* offsets = static_cast<uint64_t*>(TF_TensorData(tensor));
  auto* const base = reinterpret_cast<char*>(offsets + strings.texts.size());
  char* next = base;
  char* const end = static_cast<char*>(TF_TensorData(tensor)) + size;
  for (const std::string_view text : strings.texts) {
    *offsets++ = static_cast<uint64_t>(next - base);
    next += TF_StringEncode(text.data(), text.size(), next, static_cast<size_t>(end - next), nullptr);
  }
  return tensor;
}

TF_Tensor* TensorOfNumbers(PyArrayObject* array, int dtype) {
  const std::vector<int64_t> dims = SizesOfArray(array);
  const auto bytes = static_cast<size_t>(PyArray_NBYTES(array));
  const auto rank = static_cast<int>(dims.size());
  void* data = PyArray_DATA(array);
  if (bytes >= kCopyBelow && reinterpret_cast<uintptr_t>(data) % kAlignment == 0) {
    Py_INCREF(array);
    TF_Tensor* tensor =
        TF_NewTensor(static_cast<TF_DataType>(dtype), dims.data(), rank, data, bytes, ReleaseArray, array);
    if (tensor == nullptr) PyErr_SetString(PyExc_ValueError, "The array is not a tensor");
    return tensor;
  }
  TF_Tensor* tensor = TF_AllocateTensor(static_cast<TF_DataType>(dtype), dims.data(), rank, bytes);
  if (tensor == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  if (bytes > 0) std::memcpy(TF_TensorData(tensor), data, bytes);
  return tensor;
}

// --- From tensors

void FreeTensorOfCapsule(PyObject* capsule) {
  TF_DeleteTensor(static_cast<TF_Tensor*>(PyCapsule_GetPointer(capsule, nullptr)));
}

// Quantised numbers are plain integers there, as in TensorFlow.
PyArray_Descr* DescrOfDtype(int dtype) {
  const int type = NumpyTypeOf(dtype);
  return type < 0 ? nullptr : PyArray_DescrFromType(type);
}

std::vector<npy_intp> DimsOfTensor(const TF_Tensor* tensor) {
  std::vector<npy_intp> dims(static_cast<size_t>(TF_NumDims(tensor)));
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = TF_Dim(tensor, static_cast<int>(i));
  return dims;
}

PyObject* ArrayOfStrings(const TF_Tensor* tensor) {
  std::vector<npy_intp> dims = DimsOfTensor(tensor);
  Ref array(PyArray_SimpleNew(static_cast<int>(dims.size()), dims.data(), NPY_OBJECT));
  if (!array) return nullptr;
  const auto count = static_cast<size_t>(TF_TensorElementCount(tensor));
  const auto* data = static_cast<const char*>(TF_TensorData(tensor));
  const char* const end = data + TF_TensorByteSize(tensor);
  const char* const base = data + count * sizeof(uint64_t);
  auto** items = static_cast<PyObject**>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array.get())));
  const StatusHolder status;
  for (size_t i = 0; i < count; ++i) {
    uint64_t offset = 0;
    std::memcpy(&offset, data + i * sizeof(offset), sizeof(offset));
    const char* text = nullptr;
    size_t size = 0;
    TF_StringDecode(base + offset, static_cast<size_t>(end - base) - offset, &text, &size, status.get());
    if (!status.ok()) return RaiseStatus(status);
    PyObject* item = PyBytes_FromStringAndSize(text, static_cast<Py_ssize_t>(size));
    if (item == nullptr) return nullptr;
    PyObject* old = std::exchange(items[i], item);
    Py_XDECREF(old);
  }
  return array.release();
}

// A handle as in TensorFlow: a vector of its serialised bytes.
PyObject* ArrayOfHandle(const TF_Tensor* tensor) {
  npy_intp size = static_cast<npy_intp>(TF_TensorByteSize(tensor));
  const Ref spec(Py_BuildValue("[(ss)]", "resource", "u1"));
  PyArray_Descr* descr = nullptr;
  if (!spec || PyArray_DescrConverter(spec.get(), &descr) == 0) return nullptr;
  Ref array(PyArray_SimpleNewFromDescr(1, &size, descr));
  if (!array) return nullptr;
  std::memcpy(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array.get())), TF_TensorData(tensor),
              static_cast<size_t>(size));
  return array.release();
}

PyObject* CopyOfNumbers(const TF_Tensor* tensor, PyArray_Descr* descr) {
  std::vector<npy_intp> dims = DimsOfTensor(tensor);
  PyObject* array = PyArray_SimpleNewFromDescr(static_cast<int>(dims.size()), dims.data(), descr);
  const size_t bytes = TF_TensorByteSize(tensor);
  if (array != nullptr && bytes > 0) {
    std::memcpy(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array)), TF_TensorData(tensor), bytes);
  }
  return array;
}

PyObject* ArrayOfNumbers(TF_Tensor* tensor, PyArray_Descr* descr) {
  std::vector<npy_intp> dims = DimsOfTensor(tensor);
  const auto rank = static_cast<int>(dims.size());
  const size_t bytes = TF_TensorByteSize(tensor);
  if (bytes >= kCopyBelow && TF_TensorMaybeMove(tensor) != nullptr) {
    const Ref array(PyArray_NewFromDescr(&PyArray_Type, descr, rank, dims.data(), nullptr,
                                         TF_TensorData(tensor), NPY_ARRAY_CARRAY, nullptr));
    PyObject* owner = array ? PyCapsule_New(tensor, nullptr, FreeTensorOfCapsule) : nullptr;
    if (owner == nullptr) {
      TF_DeleteTensor(tensor);
      return nullptr;
    }
    if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array.get()), owner) < 0) return nullptr;
    return Py_NewRef(array.get());
  }
  PyObject* array = CopyOfNumbers(tensor, descr);
  TF_DeleteTensor(tensor);
  return array;
}

// Arrays of no dimensions that hold an object become that object, other ones NumPy scalars. Takes `array`
// over.
PyObject* Unwrapped(PyObject* array) {
  if (array == nullptr || !PyArray_Check(array)) return array;
  auto* typed = reinterpret_cast<PyArrayObject*>(array);
  if (PyArray_NDIM(typed) == 0 && PyArray_TYPE(typed) == NPY_OBJECT) {
    PyObject* item = PyArray_GETITEM(typed, static_cast<const char*>(PyArray_DATA(typed)));
    Py_DECREF(array);
    return item;
  }
  return PyArray_Return(typed);
}

PyObject* NoSuchArray(int dtype) {
  if (!PyErr_Occurred()) {
    PyErr_Format(PyExc_TypeError, "Tensors of the type %d cannot be fetched: NumPy has no such type", dtype);
  }
  return nullptr;
}

}  // namespace

bool ImportNumpy() { return _import_array() >= 0; }

void SetCustomType(int dtype, int numpy_type) {
  if (dtype >= 0 && dtype < 64) custom_types[dtype] = numpy_type;
}

void FreeLater(PyObject* object) {
  const std::lock_guard lock(waiting_mu);
  waiting->push_back(object);
}

void FreeWaiting() {
  std::vector<PyObject*> now;
  {
    const std::lock_guard lock(waiting_mu);
    if (waiting->empty()) return;
    now.swap(*waiting);
  }
  for (PyObject* object : now) Py_DECREF(object);
}

TF_Tensor* TensorOfArray(PyObject* object, int dtype) {
  FreeWaiting();
  const Ref contiguous(PyArray_FROM_OF(object, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_NOTSWAPPED));
  if (!contiguous) return nullptr;
  auto* array = reinterpret_cast<PyArrayObject*>(contiguous.get());
  if (dtype < 0) dtype = TypeOfArray(array);
  if (dtype < 0) {
    PyErr_Format(PyExc_TypeError, "Unsupported NumPy type: %R",
                 reinterpret_cast<PyObject*>(PyArray_DESCR(array)));
    return nullptr;
  }
  if (dtype == TF_STRING) return TensorOfStrings(array);
  if (dtype == TF_RESOURCE) {
    TF_Tensor* tensor =
        TF_AllocateTensor(TF_RESOURCE, nullptr, 0, static_cast<size_t>(PyArray_NBYTES(array)));
    if (tensor != nullptr)
      std::memcpy(TF_TensorData(tensor), PyArray_DATA(array), static_cast<size_t>(PyArray_NBYTES(array)));
    return tensor;
  }
  if (static_cast<size_t>(PyArray_ITEMSIZE(array)) != TF_DataTypeSize(static_cast<TF_DataType>(dtype))) {
    PyErr_Format(PyExc_TypeError, "An array of %R has not the size of the type %d",
                 reinterpret_cast<PyObject*>(PyArray_DESCR(array)), dtype);
    return nullptr;
  }
  return TensorOfNumbers(array, dtype);
}

TF_Tensor* CopiedTensorOfArray(PyObject* object, int dtype) {
  if (!PyArray_Check(object) ||
      static_cast<size_t>(PyArray_NBYTES(reinterpret_cast<PyArrayObject*>(object))) < kCopyBelow) {
    return TensorOfArray(object, dtype);
  }
  const Ref copy(PyArray_NewCopy(reinterpret_cast<PyArrayObject*>(object), NPY_CORDER));
  return copy ? TensorOfArray(copy.get(), dtype) : nullptr;
}

bool IsArrayOf(PyObject* value, int dtype) {
  if (PyArray_Check(value))
    return TypeOfArray(reinterpret_cast<PyArrayObject*>(value)) == dtype && dtype != TF_RESOURCE;
  if (!PyArray_IsScalar(value, Generic)) return false;
  const Ref descr(reinterpret_cast<PyObject*>(PyArray_DescrFromScalar(value)));
  return descr && reinterpret_cast<PyArray_Descr*>(descr.get())->type_num == NumpyTypeOf(dtype) &&
         dtype != TF_STRING;
}

TF_Tensor* TensorOfFeed(PyObject* value, int dtype) {
  if (dtype > kReference) dtype -= kReference;  // a value in the place of a variable
  if (PyArray_Check(value)) {
    auto* array = reinterpret_cast<PyArrayObject*>(value);
    if (TypeOfArray(array) == dtype) return TensorOfArray(value, dtype);
  }
  PyArray_Descr* descr = DescrOfDtype(dtype);
  if (descr == nullptr) {
    if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "Tensors of the type %d cannot be fed", dtype);
    return nullptr;
  }
  const Ref array(PyArray_FromAny(value, descr, 0, 0, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST, nullptr));
  return array ? TensorOfArray(array.get(), dtype) : nullptr;
}

PyObject* ArrayNotScalar(TF_Tensor* tensor) {
  const int dtype = static_cast<int>(TF_TensorType(tensor));
  if (dtype == TF_STRING || dtype == TF_RESOURCE) {
    PyObject* array = dtype == TF_STRING ? ArrayOfStrings(tensor) : ArrayOfHandle(tensor);
    TF_DeleteTensor(tensor);
    return array;
  }
  PyArray_Descr* descr = dtype == TF_VARIANT ? nullptr : DescrOfDtype(dtype);
  if (descr != nullptr) return ArrayOfNumbers(tensor, descr);
  TF_DeleteTensor(tensor);
  return NoSuchArray(dtype);
}

PyObject* ArrayOfTensor(TF_Tensor* tensor) { return Unwrapped(ArrayNotScalar(tensor)); }

PyObject* CopyOfTensor(const TF_Tensor* tensor) {
  const int dtype = static_cast<int>(TF_TensorType(tensor));
  if (dtype == TF_STRING) return Unwrapped(ArrayOfStrings(tensor));
  if (dtype == TF_RESOURCE) return ArrayOfHandle(tensor);
  PyArray_Descr* descr = dtype == TF_VARIANT ? nullptr : DescrOfDtype(dtype);
  return descr == nullptr ? NoSuchArray(dtype) : Unwrapped(CopyOfNumbers(tensor, descr));
}

}  // namespace millrace::python
