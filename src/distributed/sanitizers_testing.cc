// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// What sanitizers do not report: part of test programs, and of the program in builds with sanitizers.

// Sanitizers call these in builds that have them.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions();
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions();
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options();

// Debian's c-ares 1.18, with which gRPC resolves names, leaks ten bytes for each "localhost".
const char* __lsan_default_suppressions() { return "leak:libcares.so"; }

// Debian's gRPC is built without ThreadSanitizer, which does not see its locks: memory accesses of gRPC
// itself are not checked, nor are the batches of operations, which its headers put into our objects, and its
// reference counts of a channel. Our own accesses are checked, also on gRPC's threads: rpc/event_order.h
// describes their order. A chunk of a collective is read for a message before the receiving peer sends the
// next one, which overwrites it: no shared memory orders that.
const char* __tsan_default_suppressions() {
  return "called_from_lib:libgrpc.so\n"
         "called_from_lib:libgrpc++.so\n"
         "called_from_lib:libgpr.so\n"
         "called_from_lib:libupb.so\n"
         "called_from_lib:libcares.so\n"
         "called_from_lib:libssl.so\n"
         "called_from_lib:libcrypto.so\n"
         "called_from_lib:libabsl_base.so\n"
         "called_from_lib:libabsl_synchronization.so\n"
         "called_from_lib:libabsl_graphcycles_internal.so\n"
         "called_from_lib:libabsl_random_internal_pool_urbg.so\n"
         "called_from_lib:libabsl_status.so\n"
         "called_from_lib:libabsl_statusor.so\n"
         "called_from_lib:libabsl_strings.so\n"
         "called_from_lib:libabsl_cord.so\n"
         "called_from_lib:libabsl_cord_internal.so\n"
         "called_from_lib:libabsl_time.so\n"
         "called_from_lib:libabsl_time_zone.so\n"
         "called_from_lib:libabsl_raw_hash_set.so\n"
         "called_from_lib:libabsl_str_format_internal.so\n"
         "race:^grpc_core::channelz::\n"
         "race:grpc::internal::CallOp\n"
         "race:grpc::internal::InterceptorBatchMethodsImpl::\n"
         "race:grpc::internal::CallbackBidiHandler\n"
         "race:grpc::internal::CallbackWithSuccessTag::\n"
         "race:grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>::Finish\n"
         "race:^std::__shared_ptr<grpc::ChannelInterface\n"
         "race:^tensorflow::RecvBufRespExtra::add_tensor_content\n";
}

// Suppressions match stacks, which must be remembered for that long.
const char* __tsan_default_options() { return "history_size=6"; }
// NOLINTEND(bugprone-reserved-identifier)
