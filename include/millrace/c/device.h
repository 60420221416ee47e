/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0

   Types of devices that a library adds, with memory of their own and a stream of work: docs/devices.md. Such
   a library registers a type, and kernels for it with TF_NewKernelBuilder(op, type, ...), before sessions are
   made: when TF_LoadLibrary loads it, or before main(). */
#ifndef MILLRACE_C_DEVICE_H_
#define MILLRACE_C_DEVICE_H_

#include <stddef.h>
#include <stdint.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Says that what a function below was asked for has been done. */
typedef struct Millrace_Completion Millrace_Completion;

/* Ends a completion: once, from any thread, with no lock held that a function below takes. `status` is
   copied; NULL means OK. */
TF_CAPI_EXPORT extern void Millrace_Complete(Millrace_Completion* completion, const TF_Status* status);

/* What a type of device can do. The functions are called from any thread, several at the same time. `device`
   is what `create` gave. Functions with a completion put work into the stream of the device and return at
   once; work is done in the order in which it is put in, that of kernels included, and completions end in
   that order, too. Addresses in the memory of a device are given to its functions and its kernels only;
   nobody else reads or writes there. */
typedef struct Millrace_DeviceType {
  size_t struct_size; /* sizeof(Millrace_DeviceType) */
  const char* name;   /* "NPU": what stands behind "/device:"; copied */
  int priority; /* nodes that are free to choose go to the type of the highest priority; that of "CPU" is 50
                 */
  void* user_data; /* for `count` and `create` */

  /* How many devices a session has unless its configuration says fewer (ConfigProto.device_count). */
  int (*count)(void* user_data);
  /* Device `number`; on failure NULL and a status. */
  void* (*create)(void* user_data, int number, TF_Status* status);
  /* Nothing of the device is in use any more, and its stream is empty. */
  void (*destroy)(void* device);

  int64_t (*memory_limit)(void* device); /* NULL: not known */
  /* Memory, aligned to 64 bytes; NULL when there is none left. A block may be handed out again while work in
     the stream still uses it, since later work comes after. */
  void* (*allocate)(void* device, size_t bytes);
  void (*deallocate)(void* device, void* memory, size_t bytes);

  void (*copy_from_host)(void* device, const void* host, void* memory, size_t bytes,
                         Millrace_Completion* done);
  void (*copy_to_host)(void* device, const void* memory, void* host, size_t bytes, Millrace_Completion* done);
  void (*copy_within)(void* device, const void* from, void* to, size_t bytes, Millrace_Completion* done);
  /* Ends the completion when all work that is in the stream has been done, with the error of work that
   * failed. */
  void (*record)(void* device, Millrace_Completion* done);
} Millrace_DeviceType;

/* Adds a type of device to this process, with the kernels that need no arithmetic: constants, transfers,
   control flow, calls of functions, variables and their assignment, shapes. ALREADY_EXISTS when there is one
   of that name. */
TF_CAPI_EXPORT extern void Millrace_RegisterDeviceType(const Millrace_DeviceType* type, TF_Status* status);

/* Within the compute function of a kernel: the device that it runs on, as `create` gave it. NULL for devices
   that no library added. What the kernel gets from TF_TensorData are addresses in the memory of that device,
   save for strings and for arguments that TF_KernelBuilder_HostMemory names. The kernel puts its work into
   the stream and returns; the work must not use the context or the TF_Tensors, but it may use the addresses.
 */
TF_CAPI_EXPORT extern void* Millrace_KernelDevice(TF_OpKernelContext* ctx);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MILLRACE_C_DEVICE_H_ */
