// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The lock annotations in sources of ops. They have no effect here.
#ifndef TENSORFLOW_CORE_PLATFORM_THREAD_ANNOTATIONS_H_
#define TENSORFLOW_CORE_PLATFORM_THREAD_ANNOTATIONS_H_

#ifndef GUARDED_BY
#define GUARDED_BY(...)
#define PT_GUARDED_BY(...)
#define ACQUIRED_AFTER(...)
#define ACQUIRED_BEFORE(...)
#define EXCLUSIVE_LOCKS_REQUIRED(...)
#define SHARED_LOCKS_REQUIRED(...)
#define LOCKS_EXCLUDED(...)
#define LOCK_RETURNED(...)
#define LOCKABLE
#define SCOPED_LOCKABLE
#define EXCLUSIVE_LOCK_FUNCTION(...)
#define SHARED_LOCK_FUNCTION(...)
#define EXCLUSIVE_TRYLOCK_FUNCTION(...)
#define SHARED_TRYLOCK_FUNCTION(...)
#define UNLOCK_FUNCTION(...)
#define NO_THREAD_SAFETY_ANALYSIS
#endif

#ifndef TF_GUARDED_BY
#define TF_GUARDED_BY(...)
#define TF_PT_GUARDED_BY(...)
#define TF_EXCLUSIVE_LOCKS_REQUIRED(...)
#define TF_SHARED_LOCKS_REQUIRED(...)
#define TF_LOCKS_EXCLUDED(...)
#define TF_NO_THREAD_SAFETY_ANALYSIS
#endif

#endif
