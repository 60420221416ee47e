// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include "base/strings.h"
#include "millrace/tensor.h"
#include "tensor/dtype_table.h"

namespace millrace {
namespace {

template <typename F>
void AppendFloat(F value, std::string* out) {
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  out->append(text, end);
}

void AppendValue(float v, std::string* out) { AppendFloat(v, out); }
void AppendValue(double v, std::string* out) { AppendFloat(v, out); }
void AppendValue(half v, std::string* out) { AppendFloat(float(v), out); }
void AppendValue(bfloat16 v, std::string* out) { AppendFloat(float(v), out); }
void AppendValue(bool v, std::string* out) { out->push_back(v ? '1' : '0'); }
void AppendValue(const std::string& v, std::string* out) {
  // A name is readable in full; more only fills the log.
  static constexpr size_t kMaxShown = 256;
  out->append(CEscape(std::string_view(v).substr(0, kMaxShown)));
  if (v.size() > kMaxShown) out->append(StrCat("... (", v.size(), " bytes)"));
}
void AppendValue(const ResourceHandle& v, std::string* out) {
  out->append(StrCat("<ResourceHandle ", v.DebugString(), ">"));
}
void AppendValue(const Variant& v, std::string* out) { out->append(StrCat("<Variant ", v.TypeName(), ">")); }
template <typename F>
void AppendValue(const std::complex<F>& v, std::string* out) {
  out->push_back('(');
  AppendFloat(v.real(), out);
  out->push_back(',');
  AppendFloat(v.imag(), out);
  out->push_back(')');
}
template <typename Int, int kTag>
void AppendValue(Quantized<Int, kTag> v, std::string* out) {
  out->append(std::to_string(v.value));
}
template <typename T>
requires std::integral<T>
void AppendValue(T v, std::string* out) { out->append(std::to_string(v)); }

// Rows of the last dimension in brackets, as "[1 2][3 4]"; a vector or scalar without.
template <typename T>
void AppendValues(const Tensor& t, int64_t limit, std::string* out) {
  const int64_t row = t.rank() >= 2 ? std::max<int64_t>(t.dim(t.rank() - 1), 1) : 0;
  const int64_t shown = std::min(limit, t.num_elements());
  for (int64_t i = 0; i < shown; ++i) {
    if (row > 0 && i % row == 0) out->push_back('[');
    if (row > 0 ? i % row != 0 : i != 0) out->push_back(' ');
    AppendValue(t.data<T>()[i], out);
    if (row > 0 && (i + 1) % row == 0) out->push_back(']');
  }
  if (shown < t.num_elements()) out->append("...");
}

}  // namespace

std::string Tensor::DebugString(int64_t max_entries) const {
  std::string out = StrCat("Tensor<type: ", dtype_, " shape: ", shape_, " values: ");
  if (!IsInitialized()) {
    out += "uninitialized";
  } else {
    VisitDataType(dtype_, false, [&]<typename T>() {
      AppendValues<T>(*this, std::max<int64_t>(max_entries, 0), &out);
      return true;
    });
  }
  return out + ">";
}

}  // namespace millrace
