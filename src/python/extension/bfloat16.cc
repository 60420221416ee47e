// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Registers bfloat16, which NumPy lacks, as a type whose elements are the upper half of a
// float.
#include "python/extension/bfloat16.h"

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "python/extension/arrays.h"

namespace millrace::python {
namespace {

float FloatOf(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Rounds to the nearest, ties to even.
uint16_t BitsOf(float value) {
  if (std::isnan(value)) return 0x7FC0;
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float FloatOfHalf(uint16_t half) {
  const uint32_t sign = (half & 0x8000U) << 16;
  const uint32_t exponent = (half >> 10) & 31U;
  const uint32_t fraction = half & 0x3FFU;
  if (exponent == 0)
    return std::copysign(std::ldexp(static_cast<float>(fraction), -24), sign != 0 ? -1.0F : 1.0F);
  const uint32_t wide = exponent == 31 ? 255U : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

// Exact but for values beyond half's range and below its normal numbers: bfloat16 has fewer digits.
uint16_t HalfOf(uint16_t bits) {
  const float value = FloatOf(bits);
  const auto sign = static_cast<uint16_t>(bits & 0x8000U);
  const float size = std::fabs(value);
  if (std::isnan(value)) return 0x7E00;
  if (size >= 65520.0F) return sign | 0x7C00U;
  if (size < std::ldexp(1.0F, -14)) {
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(size, 24))));
  }
  const auto wide = std::bit_cast<uint32_t>(size);
  return static_cast<uint16_t>(sign | ((wide >> 13) - (112U << 10)));
}

// --- Scalars. NumPy expects the element right behind the head of the object.

struct Scalar {
  PyObject_HEAD uint16_t bits;
};

PyTypeObject scalar_type = {PyVarObject_HEAD_INIT(nullptr, 0)};
int type_number = -1;

bool IsScalar(PyObject* object) { return PyObject_TypeCheck(object, &scalar_type) != 0; }
uint16_t BitsOfScalar(PyObject* object) { return reinterpret_cast<Scalar*>(object)->bits; }
float FloatOfScalar(PyObject* object) { return FloatOf(BitsOfScalar(object)); }

PyObject* NewScalar(uint16_t bits) {
  PyObject* object = scalar_type.tp_alloc(&scalar_type, 0);
  if (object != nullptr) reinterpret_cast<Scalar*>(object)->bits = bits;
  return object;
}

// The bits of a number; false with an exception.
bool BitsOfNumber(PyObject* value, uint16_t* bits) {
  if (IsScalar(value)) {
    *bits = BitsOfScalar(value);
    return true;
  }
  if (PyUnicode_Check(value) || PyBytes_Check(value)) {
    PyErr_Format(PyExc_TypeError, "expected number, got %s", Py_TYPE(value)->tp_name);
    return false;
  }
  const double number = PyFloat_AsDouble(value);
  if (number == -1.0 && PyErr_Occurred() != nullptr) return false;
  *bits = BitsOf(static_cast<float>(number));
  return true;
}

PyObject* ScalarNew(PyTypeObject* /*type*/, PyObject* args, PyObject* kwargs) {
  if (kwargs != nullptr && PyDict_Size(kwargs) != 0) {
    PyErr_SetString(PyExc_TypeError, "constructor takes no keyword arguments");
    return nullptr;
  }
  if (PyTuple_GET_SIZE(args) != 1) {
    PyErr_SetString(PyExc_TypeError, "expected number as argument to bfloat16 constructor");
    return nullptr;
  }
  PyObject* value = PyTuple_GET_ITEM(args, 0);
  if (PyArray_Check(value) && PyArray_NDIM(reinterpret_cast<PyArrayObject*>(value)) > 0) {
    return PyArray_CastToType(reinterpret_cast<PyArrayObject*>(value), PyArray_DescrFromType(type_number), 0);
  }
  uint16_t bits = 0;
  return BitsOfNumber(value, &bits) ? NewScalar(bits) : nullptr;
}

// Six digits where they identify the float uniquely, else nine.
void WriteFloat(float value, char* text, size_t size) {
  std::snprintf(text, size, "%.*g", FLT_DIG, static_cast<double>(value));
  if (std::strtof(text, nullptr) != value && !std::isnan(value)) {
    std::snprintf(text, size, "%.*g", FLT_DIG + 3, static_cast<double>(value));
  }
}

PyObject* ScalarStr(PyObject* self) {
  char text[32];
  WriteFloat(FloatOfScalar(self), text, sizeof(text));
  return PyUnicode_FromString(std::isnan(FloatOfScalar(self)) ? "nan" : text);
}

PyObject* ScalarRepr(PyObject* self) {
  const Ref text(ScalarStr(self));
  return text ? PyUnicode_FromFormat("bfloat16(%U)", text.get()) : nullptr;
}

Py_hash_t ScalarHash(PyObject* self) { return BitsOfScalar(self); }

// Whether NumPy can compute with a scalar and this operand. With another object it would call the object,
// which calls the scalar: an endless recursion.
bool IsOperand(PyObject* other) {
  if (PyArray_Check(other) || PyFloat_Check(other) || PyComplex_Check(other)) return true;
  if (PyLong_Check(other)) {
    int overflow = 0;
    PyLong_AsLongLongAndOverflow(other, &overflow);
    return overflow == 0;  // larger numbers are objects to NumPy
  }
  if (IsScalar(other) || PyArray_IsScalar(other, Number) || PyArray_IsScalar(other, Bool)) return true;
  if (!PyList_Check(other) && !PyTuple_Check(other)) return false;
  const Ref array(PyArray_FromAny(other, nullptr, 0, 0, 0, nullptr));
  if (array) return PyArray_TYPE(reinterpret_cast<PyArrayObject*>(array.get())) != NPY_OBJECT;
  PyErr_Clear();
  return false;
}

PyObject* ScalarCompare(PyObject* a, PyObject* b, int operation) {
  if (!IsScalar(b)) {
    if (!IsOperand(b)) Py_RETURN_NOTIMPLEMENTED;
    return PyGenericArrType_Type.tp_richcompare(a, b, operation);
  }
  const float x = FloatOfScalar(a);
  const float y = FloatOfScalar(b);
  Py_RETURN_RICHCOMPARE(x, y, operation);
}

PyObject* ScalarFloat(PyObject* self) { return PyFloat_FromDouble(FloatOfScalar(self)); }
PyObject* ScalarInt(PyObject* self) { return PyLong_FromDouble(FloatOfScalar(self)); }
int ScalarBool(PyObject* self) { return FloatOfScalar(self) != 0.0F ? 1 : 0; }
PyObject* ScalarNegative(PyObject* self) {
  return NewScalar(static_cast<uint16_t>(BitsOfScalar(self) ^ 0x8000U));
}
PyObject* ScalarAbsolute(PyObject* self) {
  return NewScalar(static_cast<uint16_t>(BitsOfScalar(self) & 0x7FFFU));
}
PyObject* ScalarPositive(PyObject* self) { return NewScalar(BitsOfScalar(self)); }

struct Add {
  float operator()(float x, float y) const { return x + y; }
};
struct Subtract {
  float operator()(float x, float y) const { return x - y; }
};
struct Multiply {
  float operator()(float x, float y) const { return x * y; }
};
struct Divide {
  float operator()(float x, float y) const { return x / y; }
};
struct Maximum {
  float operator()(float x, float y) const { return std::isnan(x) || x > y ? x : y; }
};
struct Minimum {
  float operator()(float x, float y) const { return std::isnan(x) || x < y ? x : y; }
};

// Of two scalars; other operands make arrays of both.
template <class Operation, binaryfunc PyNumberMethods::*kOfArrays>
PyObject* ScalarBinary(PyObject* a, PyObject* b) {
  if (IsScalar(a) && IsScalar(b)) return NewScalar(BitsOf(Operation()(FloatOfScalar(a), FloatOfScalar(b))));
  if (!IsOperand(a) || !IsOperand(b)) Py_RETURN_NOTIMPLEMENTED;
  return (PyArray_Type.tp_as_number->*kOfArrays)(a, b);
}

template <binaryfunc PyNumberMethods::*kOfArrays>
PyObject* ThroughArrays(PyObject* a, PyObject* b) {
  if (!IsOperand(a) || !IsOperand(b)) Py_RETURN_NOTIMPLEMENTED;
  return (PyArray_Type.tp_as_number->*kOfArrays)(a, b);
}

PyObject* ScalarPower(PyObject* a, PyObject* b, PyObject* modulo) {
  if (modulo != Py_None || !IsOperand(a) || !IsOperand(b)) Py_RETURN_NOTIMPLEMENTED;
  return PyArray_Type.tp_as_number->nb_power(a, b, Py_None);
}

// For object arrays NumPy's functions would call the scalars again.
PyObject* NotForFloats(PyObject* /*a*/, PyObject* /*b*/) { Py_RETURN_NOTIMPLEMENTED; }
PyObject* NoInverse(PyObject* /*self*/) {
  PyErr_SetString(PyExc_TypeError, "bad operand type for unary ~: 'bfloat16'");
  return nullptr;
}

PyNumberMethods number_methods;

bool ReadyScalars(PyObject* module) {
  number_methods.nb_add = ScalarBinary<Add, &PyNumberMethods::nb_add>;
  number_methods.nb_subtract = ScalarBinary<Subtract, &PyNumberMethods::nb_subtract>;
  number_methods.nb_multiply = ScalarBinary<Multiply, &PyNumberMethods::nb_multiply>;
  number_methods.nb_true_divide = ScalarBinary<Divide, &PyNumberMethods::nb_true_divide>;
  number_methods.nb_floor_divide = ThroughArrays<&PyNumberMethods::nb_floor_divide>;
  number_methods.nb_remainder = ThroughArrays<&PyNumberMethods::nb_remainder>;
  number_methods.nb_divmod = ThroughArrays<&PyNumberMethods::nb_divmod>;
  number_methods.nb_power = ScalarPower;
  number_methods.nb_lshift = NotForFloats;
  number_methods.nb_rshift = NotForFloats;
  number_methods.nb_and = NotForFloats;
  number_methods.nb_or = NotForFloats;
  number_methods.nb_xor = NotForFloats;
  number_methods.nb_matrix_multiply = NotForFloats;
  number_methods.nb_invert = NoInverse;
  number_methods.nb_negative = ScalarNegative;
  number_methods.nb_positive = ScalarPositive;
  number_methods.nb_absolute = ScalarAbsolute;
  number_methods.nb_bool = ScalarBool;
  number_methods.nb_int = ScalarInt;
  number_methods.nb_float = ScalarFloat;
  scalar_type.tp_name = "millrace.python._engine.bfloat16";
  scalar_type.tp_doc = "Floating point number with the exponent of a float32 and a fraction of seven bits.";
  scalar_type.tp_basicsize = sizeof(Scalar);
  scalar_type.tp_flags = Py_TPFLAGS_DEFAULT;
  scalar_type.tp_base = &PyGenericArrType_Type;
  scalar_type.tp_new = ScalarNew;
  scalar_type.tp_repr = ScalarRepr;
  scalar_type.tp_str = ScalarStr;
  scalar_type.tp_hash = ScalarHash;
  scalar_type.tp_richcompare = ScalarCompare;
  scalar_type.tp_as_number = &number_methods;
  return PyType_Ready(&scalar_type) == 0 &&
         PyModule_AddObjectRef(module, "bfloat16", reinterpret_cast<PyObject*>(&scalar_type)) == 0;
}

// --- Elements of arrays

uint16_t Load(const void* place) {
  uint16_t bits = 0;
  std::memcpy(&bits, place, sizeof(bits));
  return bits;
}
void Store(void* place, uint16_t bits) { std::memcpy(place, &bits, sizeof(bits)); }

PyObject* GetItem(void* data, void* /*array*/) { return NewScalar(Load(data)); }

int SetItem(PyObject* item, void* data, void* /*array*/) {
  uint16_t bits = 0;
  if (PySequence_Check(item) != 0 && !PyArray_Check(item) && !PyArray_IsScalar(item, Generic)) {
    PyErr_SetString(PyExc_ValueError, "setting an array element with a sequence");
    return -1;
  }
  if (!BitsOfNumber(item, &bits)) return -1;
  Store(data, bits);
  return 0;
}

uint16_t Swapped(uint16_t bits) { return static_cast<uint16_t>((bits << 8) | (bits >> 8)); }

void CopySwap(void* to, void* from, int swap, void* /*array*/) {
  if (from != nullptr) std::memmove(to, from, sizeof(uint16_t));
  if (swap != 0) Store(to, Swapped(Load(to)));
}

void CopySwapN(void* to, npy_intp to_step, void* from, npy_intp from_step, npy_intp count, int swap,
               void* array) {
  for (npy_intp i = 0; i < count; ++i) {
    CopySwap(static_cast<char*>(to) + i * to_step,
             from == nullptr ? nullptr : static_cast<char*>(from) + i * from_step, swap, array);
  }
}

// NaN is above all numbers, as NumPy sorts.
int Compare(const void* a, const void* b, void* /*array*/) {
  const float x = FloatOf(Load(a));
  const float y = FloatOf(Load(b));
  if (x < y || (std::isnan(y) && !std::isnan(x))) return -1;
  return y < x || (std::isnan(x) && !std::isnan(y)) ? 1 : 0;
}

// The first largest element, or the first NaN.
int ArgMax(void* data, npy_intp count, npy_intp* place, void* array) {
  const auto* elements = static_cast<const char*>(data);
  *place = 0;
  for (npy_intp i = 1; i < count; ++i) {
    if (Compare(elements + i * 2, elements + *place * 2, array) > 0) *place = i;
  }
  return 0;
}

npy_bool NonZero(void* data, void* /*array*/) { return FloatOf(Load(data)) != 0.0F ? NPY_TRUE : NPY_FALSE; }

// Continues the sequence of the first two elements, for arange.
int Fill(void* data, npy_intp count, void* /*array*/) {
  auto* elements = static_cast<char*>(data);
  const float start = FloatOf(Load(elements));
  const float step = FloatOf(Load(elements + 2)) - start;
  for (npy_intp i = 2; i < count; ++i) Store(elements + i * 2, BitsOf(start + static_cast<float>(i) * step));
  return 0;
}

int FillWithScalar(void* data, npy_intp count, void* value, void* /*array*/) {
  for (npy_intp i = 0; i < count; ++i) Store(static_cast<char*>(data) + i * 2, Load(value));
  return 0;
}

void Dot(void* a, npy_intp a_step, void* b, npy_intp b_step, void* to, npy_intp count, void* /*array*/) {
  float sum = 0.0F;
  for (npy_intp i = 0; i < count; ++i) {
    sum +=
        FloatOf(Load(static_cast<char*>(a) + i * a_step)) * FloatOf(Load(static_cast<char*>(b) + i * b_step));
  }
  Store(to, BitsOf(sum));
}

PyArray_ArrFuncs functions;
PyArray_Descr* descr;

bool RegisterType() {
  PyArray_InitArrFuncs(&functions);
  functions.getitem = GetItem;
  functions.setitem = SetItem;
  functions.copyswap = CopySwap;
  functions.copyswapn = CopySwapN;
  functions.compare = Compare;
  functions.argmax = ArgMax;
  functions.nonzero = NonZero;
  functions.fill = Fill;
  functions.fillwithscalar = FillWithScalar;
  functions.dotfunc = Dot;
  descr = PyObject_New(PyArray_Descr, &PyArrayDescr_Type);
  if (descr == nullptr) return false;
  Py_INCREF(&scalar_type);
  descr->typeobj = &scalar_type;
  descr->kind = 'V';  // of no kind of NumPy
  descr->type = 'E';
  descr->byteorder = '=';
  descr->flags = NPY_NEEDS_PYAPI | NPY_USE_GETITEM | NPY_USE_SETITEM;
  descr->type_num = 0;
  descr->elsize = sizeof(uint16_t);
  descr->alignment = alignof(uint16_t);
  descr->subarray = nullptr;
  descr->fields = nullptr;
  descr->names = nullptr;
  descr->f = &functions;
  descr->metadata = nullptr;
  descr->c_metadata = nullptr;
  descr->hash = -1;
  type_number = PyArray_RegisterDataType(descr);
  if (type_number < 0) return false;
  SetCustomType(TF_BFLOAT16, type_number);
  return PyDict_SetItemString(scalar_type.tp_dict, "dtype", reinterpret_cast<PyObject*>(descr)) == 0;
}

// --- Casts

template <class Number>
void CastFrom(void* from, void* to, npy_intp count, void* /*from_array*/, void* /*to_array*/) {
  const auto* numbers = static_cast<const Number*>(from);
  for (npy_intp i = 0; i < count; ++i) {
    Store(static_cast<char*>(to) + i * 2, BitsOf(static_cast<float>(numbers[i])));
  }
}

template <class Number>
void CastTo(void* from, void* to, npy_intp count, void* /*from_array*/, void* /*to_array*/) {
  auto* numbers = static_cast<Number*>(to);
  for (npy_intp i = 0; i < count; ++i) {
    numbers[i] = static_cast<Number>(FloatOf(Load(static_cast<char*>(from) + i * 2)));
  }
}

void CastToBool(void* from, void* to, npy_intp count, void* /*from_array*/, void* /*to_array*/) {
  for (npy_intp i = 0; i < count; ++i) {
    static_cast<npy_bool*>(to)[i] = NonZero(static_cast<char*>(from) + i * 2, nullptr);
  }
}

template <class Part>
void CastFromPairs(void* from, void* to, npy_intp count, void* /*from_array*/, void* /*to_array*/) {
  const auto* parts = static_cast<const Part*>(from);
  for (npy_intp i = 0; i < count; ++i) {
    Store(static_cast<char*>(to) + i * 2, BitsOf(static_cast<float>(parts[2 * i])));
  }
}

template <class Part>
void CastToPairs(void* from, void* to, npy_intp count, void* /*from_array*/, void* /*to_array*/) {
  auto* parts = static_cast<Part*>(to);
  for (npy_intp i = 0; i < count; ++i) {
    parts[2 * i] = static_cast<Part>(FloatOf(Load(static_cast<char*>(from) + i * 2)));
    parts[2 * i + 1] = Part{0};
  }
}

void CastFromHalf(void* from, void* to, npy_intp count, void* /*from_array*/, void* /*to_array*/) {
  for (npy_intp i = 0; i < count; ++i) {
    Store(static_cast<char*>(to) + i * 2, BitsOf(FloatOfHalf(Load(static_cast<char*>(from) + i * 2))));
  }
}

void CastToHalf(void* from, void* to, npy_intp count, void* /*from_array*/, void* /*to_array*/) {
  for (npy_intp i = 0; i < count; ++i) {
    Store(static_cast<char*>(to) + i * 2, HalfOf(Load(static_cast<char*>(from) + i * 2)));
  }
}

struct Cast {
  int type;
  PyArray_VectorUnaryFunc* from;
  PyArray_VectorUnaryFunc* to;
};

bool RegisterCasts() {
  static constexpr Cast kCasts[] = {
      {NPY_BOOL, CastFrom<npy_bool>, CastToBool},
      {NPY_BYTE, CastFrom<npy_byte>, CastTo<npy_byte>},
      {NPY_UBYTE, CastFrom<npy_ubyte>, CastTo<npy_ubyte>},
      {NPY_SHORT, CastFrom<npy_short>, CastTo<npy_short>},
      {NPY_USHORT, CastFrom<npy_ushort>, CastTo<npy_ushort>},
      {NPY_INT, CastFrom<npy_int>, CastTo<npy_int>},
      {NPY_UINT, CastFrom<npy_uint>, CastTo<npy_uint>},
      {NPY_LONG, CastFrom<npy_long>, CastTo<npy_long>},
      {NPY_ULONG, CastFrom<npy_ulong>, CastTo<npy_ulong>},
      {NPY_LONGLONG, CastFrom<npy_longlong>, CastTo<npy_longlong>},
      {NPY_ULONGLONG, CastFrom<npy_ulonglong>, CastTo<npy_ulonglong>},
      {NPY_HALF, CastFromHalf, CastToHalf},
      {NPY_FLOAT, CastFrom<npy_float>, CastTo<npy_float>},
      {NPY_DOUBLE, CastFrom<npy_double>, CastTo<npy_double>},
      {NPY_LONGDOUBLE, CastFrom<npy_longdouble>, CastTo<npy_longdouble>},
      {NPY_CFLOAT, CastFromPairs<npy_float>, CastToPairs<npy_float>},
      {NPY_CDOUBLE, CastFromPairs<npy_double>, CastToPairs<npy_double>},
      {NPY_CLONGDOUBLE, CastFromPairs<npy_longdouble>, CastToPairs<npy_longdouble>}};
  for (const Cast& cast : kCasts) {
    PyArray_Descr* other = PyArray_DescrFromType(cast.type);
    if (PyArray_RegisterCastFunc(other, type_number, cast.from) < 0) return false;
    if (PyArray_RegisterCastFunc(descr, cast.type, cast.to) < 0) return false;
  }
  for (const int wider : {NPY_FLOAT, NPY_DOUBLE, NPY_LONGDOUBLE, NPY_CFLOAT, NPY_CDOUBLE, NPY_CLONGDOUBLE}) {
    if (PyArray_RegisterCanCast(descr, wider, NPY_NOSCALAR) < 0) return false;
  }
  for (const int narrower : {NPY_BOOL, NPY_BYTE, NPY_UBYTE}) {
    if (PyArray_RegisterCanCast(PyArray_DescrFromType(narrower), type_number, NPY_NOSCALAR) < 0) return false;
  }
  return true;
}

// --- Functions of arrays; those that are not here are computed in float32

template <class Operation>
void BinaryLoop(char** args, const npy_intp* sizes, const npy_intp* steps, void* /*data*/) {
  for (npy_intp i = 0; i < sizes[0]; ++i) {
    const float x = FloatOf(Load(args[0] + i * steps[0]));
    const float y = FloatOf(Load(args[1] + i * steps[1]));
    Store(args[2] + i * steps[2], BitsOf(Operation()(x, y)));
  }
}

template <int kOperation>
void CompareLoop(char** args, const npy_intp* sizes, const npy_intp* steps, void* /*data*/) {
  for (npy_intp i = 0; i < sizes[0]; ++i) {
    const float x = FloatOf(Load(args[0] + i * steps[0]));
    const float y = FloatOf(Load(args[1] + i * steps[1]));
    bool holds = false;
    if constexpr (kOperation == Py_EQ) holds = x == y;
    if constexpr (kOperation == Py_NE) holds = x != y;
    if constexpr (kOperation == Py_LT) holds = x < y;
    if constexpr (kOperation == Py_LE) holds = x <= y;
    if constexpr (kOperation == Py_GT) holds = x > y;
    if constexpr (kOperation == Py_GE) holds = x >= y;
    *(args[2] + i * steps[2]) = holds ? 1 : 0;
  }
}

// Clears or changes the sign.
template <bool kNegative>
void SignLoop(char** args, const npy_intp* sizes, const npy_intp* steps, void* /*data*/) {
  for (npy_intp i = 0; i < sizes[0]; ++i) {
    const uint16_t bits = Load(args[0] + i * steps[0]);
    Store(args[1] + i * steps[1], static_cast<uint16_t>(kNegative ? bits ^ 0x8000U : bits & 0x7FFFU));
  }
}

struct Loop {
  const char* name;
  PyUFuncGenericFunction function;
  int inputs;
  bool to_bool;
};

bool RegisterLoops() {
  static constexpr Loop kLoops[] = {
      {"add", BinaryLoop<Add>, 2, false},           {"subtract", BinaryLoop<Subtract>, 2, false},
      {"multiply", BinaryLoop<Multiply>, 2, false}, {"true_divide", BinaryLoop<Divide>, 2, false},
      {"maximum", BinaryLoop<Maximum>, 2, false},   {"minimum", BinaryLoop<Minimum>, 2, false},
      {"negative", SignLoop<true>, 1, false},       {"absolute", SignLoop<false>, 1, false},
      {"equal", CompareLoop<Py_EQ>, 2, true},       {"not_equal", CompareLoop<Py_NE>, 2, true},
      {"less", CompareLoop<Py_LT>, 2, true},        {"less_equal", CompareLoop<Py_LE>, 2, true},
      {"greater", CompareLoop<Py_GT>, 2, true},     {"greater_equal", CompareLoop<Py_GE>, 2, true}};
  const Ref numpy(PyImport_ImportModule("numpy"));
  if (!numpy) return false;
  for (const Loop& loop : kLoops) {
    const Ref function(PyObject_GetAttrString(numpy.get(), loop.name));
    if (!function) return false;
    int types[] = {type_number, type_number, type_number};
    if (loop.to_bool) types[loop.inputs] = NPY_BOOL;
    if (PyUFunc_RegisterLoopForType(reinterpret_cast<PyUFuncObject*>(function.get()), type_number,
                                    loop.function, types, nullptr) < 0) {
      return false;
    }
  }
  return true;
}

bool ImportFunctions() { return _import_array() >= 0 && _import_umath() >= 0; }

}  // namespace

bool ReadyBfloat16(PyObject* module) {
  return ImportFunctions() && ReadyScalars(module) && RegisterType() && RegisterCasts() && RegisterLoops();
}

}  // namespace millrace::python
