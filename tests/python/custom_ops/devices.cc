// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// An op whose functor is written for several devices, and other features that such sources use.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/mutex.h"

using namespace tensorflow;  // NOLINT(google-build-using-namespace): as such sources have it

using CPUDevice = Eigen::ThreadPoolDevice;
using GPUDevice = Eigen::GpuDevice;

template <typename Device, typename T>
struct ExampleFunctor {
  void operator()(const Device& d, int size, const T* in, T* out);
};

template <typename T>
struct ExampleFunctor<CPUDevice, T> {
  void operator()(const CPUDevice& /*d*/, int size, const T* in, T* out) {
    for (int i = 0; i < size; ++i) out[i] = 2 * in[i];
  }
};

REGISTER_OP("CustomExample")
    .Attr("T: numbertype")
    .Input("input: T")
    .Output("input_times_two: T")
    .Output("copy: T")
    .Output("calls: int32");

template <typename Device, typename T>
class ExampleOp : public OpKernel {
 public:
  explicit ExampleOp(OpKernelConstruction* context) : OpKernel(context) {}
  void Compute(OpKernelContext* context) override {
    const Tensor& input_tensor = context->input(0);
    Tensor* output_tensor = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, input_tensor.shape(), &output_tensor));
    OP_REQUIRES(context, input_tensor.NumElements() <= tensorflow::kint32max,
                errors::InvalidArgument("Too many elements in tensor"));
    ExampleFunctor<Device, T>()(context->eigen_device<Device>(), static_cast<int>(input_tensor.NumElements()),
                                input_tensor.flat<T>().data(), output_tensor->flat<T>().data());
    Tensor* copy = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(1, input_tensor.shape(), &copy));
#if defined(EIGEN_USE_THREADS)
    // An expression on the threads of the device.
    copy->flat<T>().device(context->eigen_cpu_device()) = output_tensor->flat<T>() - input_tensor.flat<T>();
#else
    copy->flat<T>() = input_tensor.flat<T>();
#endif
    OP_REQUIRES(context, context->device()->tensorflow_cpu_worker_threads()->num_threads >= 1,
                errors::Internal("no threads"));
    Tensor* calls = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(2, TensorShape({}), &calls));
    calls->scalar<int32>()() = Count();
  }

 private:
  int32 Count() LOCKS_EXCLUDED(mu_) {
    mutex_lock lock(mu_);
    ++calls_;
    changed_.notify_all();
    while (calls_ == 0) changed_.wait(lock);
    return WaitForMilliseconds(&lock, &changed_, 1) == kCond_Timeout ? calls_ : -calls_;
  }

  mutex mu_;
  condition_variable changed_;
  int32 calls_ GUARDED_BY(mu_) = 0;
};

#define REGISTER_CPU(T)                                                                    \
  REGISTER_KERNEL_BUILDER(Name("CustomExample").Device(DEVICE_CPU).TypeConstraint<T>("T"), \
                          ExampleOp<CPUDevice, T>)
REGISTER_CPU(float);
REGISTER_CPU(int32);
