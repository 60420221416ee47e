// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/nn/util.h"

#include "kernels/cpu/vector/cast.h"
#include "kernels/cpu/vector/unary.h"

namespace millrace {

SpatialAttr ReadSpatialAttr(KernelConstruction& c, const char* attr, const ImageDims& dims) {
  const auto values = c.Attr<std::vector<int64_t>>(attr);
  if (!c.status().ok()) return {};
  const std::string_view name(attr);
  const std::string& op = c.props()->op->def.name;
  const bool pools = op.find("Pool") != std::string::npos;
  if (values.size() != 4) {
    c.SetError(errors::InvalidArgument("Sliding window ", pools && name == "strides" ? "stride" : name,
                                       " field must specify 4 dimensions"));
    return {};
  }
  const SpatialAttr s{values[dims.height()], values[dims.width()]};
  for (size_t i = 0; pools && name == "ksize" && i < values.size(); ++i) {
    if (values[i] != 0) continue;
    c.SetError(errors::InvalidArgument("Sliding window ksize for dimension ", i, " was zero."));
    return {};
  }
  if (pools && values[dims.batch()] != 1) {
    c.SetError(errors::Unimplemented("Pooling is not yet supported on the batch dimension."));
  } else if (pools && values[dims.channel()] != 1 && op.starts_with("MaxPool") &&
             op.find("Grad") != op.npos) {
    c.SetError(errors::Unimplemented("MaxPoolingGrad is not yet supported on the depth dimension."));
  } else if (pools && values[dims.channel()] != 1 && op.starts_with("AvgPool")) {
    c.SetError(errors::Unimplemented("Non-spatial pooling is not yet supported. Volunteers? :)"));
  } else if (op == "MaxPool") {
    // Pools over depth are allowed.
  } else if (values[dims.batch()] != 1 || values[dims.channel()] != 1) {
    c.SetError(errors::InvalidArgument("Current implementation does not yet support ", name,
                                       " in the batch and depth dimensions."));
  }
  if (s.h <= 0 || s.w <= 0) {
    if (pools || name == "ksize") {
      c.SetError(errors::InvalidArgument("Attr '", name, "' must be positive, got ", s.h, " and ", s.w));
    } else {
      c.SetError(errors::InvalidArgument(name == "strides" ? "Row and column strides" : "Dilated rates",
                                         " should be larger than 0."));
    }
  }
  if (s.h > INT32_MAX || s.w > INT32_MAX)
    c.SetError(errors::InvalidArgument("Attr '", attr, "' is too large"));
  return s;
}

StatusOr<Tensor> ToFloat(KernelContext& context, const Tensor& t) {
  if (t.dtype() == DataType::kFloat) return t;
  const cpu::UnaryFn cast = cpu::FindCast(t.dtype(), DataType::kFloat);
  MR_ASSIGN_OR_RETURN(Tensor out, context.AllocateTemp(DataType::kFloat, t.shape()));
  ContextParallel parallel(context);
  cpu::RunUnary(cast, t.raw_data(), static_cast<int64_t>(ElementSize(t.dtype())), out.raw_data(),
                sizeof(float), t.num_elements(), 0.5, parallel);
  return out;
}

void FromFloat(const KernelContext& context, const Tensor& from, Tensor* to) {
  ContextParallel parallel(context);
  cpu::RunUnary(cpu::FindCast(DataType::kFloat, to->dtype()), from.raw_data(), sizeof(float), to->raw_data(),
                static_cast<int64_t>(ElementSize(to->dtype())), from.num_elements(), 0.5, parallel);
}

Status CheckImageSize(const char* what, int64_t n, int64_t h, int64_t w, int64_t c) {
  int64_t product = 1;
  bool fits = true;
  // A zero must not hide an overflow of the other sizes, as in TensorShape.
  for (const int64_t size : {n, h, w, c}) fits = fits && (size == 0 || MultiplyFits(product, size, &product));
  if (fits && product <= (int64_t{1} << 40)) return Status();
  return errors::ResourceExhausted(what, " would have shape [", n, ",", h, ",", w, ",", c,
                                   "], which is too large");
}

}  // namespace millrace
