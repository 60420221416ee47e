/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* Gradients with all options of TensorFlow's tf.gradients, and gradient functions of a client.

   TF_AddGradients of tensorflow/c/c_api.h gives dense gradients under the names of TensorFlow's C++ API. The
   functions here give slices where a gradient has rows of zeros that need not be computed, and names as
   TensorFlow's Python client makes them. docs/gradients.md describes how values flow. */
#ifndef MILLRACE_C_GRADIENTS_H_
#define MILLRACE_C_GRADIENTS_H_

#include <stddef.h>

#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kinds of gradients. */
#define MILLRACE_GRADIENT_NONE 0  /* there is none: nothing depends on the tensor, or not differentiably */
#define MILLRACE_GRADIENT_DENSE 1 /* `values` is a tensor of the shape of what it is the gradient of */
#define MILLRACE_GRADIENT_SLICES \
  2 /* row indices[i] of the gradient gets values[i] added; other rows are zero */

/* A gradient. Fields that its kind does not use are {NULL, -1}. */
typedef struct Millrace_Gradient {
  int kind;
  TF_Output values;      /* dense: the gradient; slices: a tensor of the shape [n, ...] */
  TF_Output indices;     /* slices: int32 or int64 of the shape [n]; may repeat */
  TF_Output dense_shape; /* slices: the shape as an integer vector; {NULL, -1} when it is not known */
} Millrace_Gradient;

/* Values of Millrace_GradientOptions.aggregation, how gradients of several consumers are added up; they are
   those of tf.AggregationMethod. Slices are concatenated in all methods. */
#define MILLRACE_AGGREGATE_ADD_N 0 /* one AddN */
#define MILLRACE_AGGREGATE_TREE 1  /* additions of two, so that the summands are freed early */
#define MILLRACE_AGGREGATE_ACCUMULATE_N \
  2 /* AccumulateNV2 where the shape is known, additions of two elsewhere */

/* Options of Millrace_AddGradients. Millrace_InitGradientOptions sets the defaults of tf.gradients. */
typedef struct Millrace_GradientOptions {
  size_t struct_size; /* sizeof(Millrace_GradientOptions) as the caller was compiled */
  /* New nodes are named "<prefix>/...", those of the gradient of an operation "<prefix>/<name>_grad/...".
     NULL: the first of "gradients", "gradients_1", ... that the graph does not have. A given prefix is taken
     as it is, also when there are nodes under it. */
  const char* prefix;
  /* The device that new nodes request; NULL: that of the operation whose gradient they compute. */
  const char* device;
  const TF_Output* stop_gradients; /* gradients do not flow through the operations of these tensors */
  int num_stop_gradients;
  unsigned char colocate; /* colocate_gradients_with_ops: new nodes are colocated with the operation */
  unsigned char gate;     /* gate_gradients: the gradients of an operation are used once all are computed */
  unsigned char zeros;    /* unconnected_gradients: zeros of the x's shape instead of none */
  unsigned char int_flow; /* gradients flow through integer tensors too, as in TF_AddGradients */
  int aggregation;
} Millrace_GradientOptions;

TF_CAPI_EXPORT extern void Millrace_InitGradientOptions(Millrace_GradientOptions* options);

/* Adds the operations that compute, for each of the `nx` xs, the sum over the `ny` ys of the gradient of y
   with respect to x, and stores them in `gradients` (nx entries, all of kind NONE on error).

   - `grad_ys` (NULL: all NONE) has the gradient that arrives at each y; NONE: ones. Slices are taken too.
   - `options` NULL: the defaults.
   - A gradient function of a client may be called, see below; it runs in this thread, before this returns.
   - Errors: NotFound for an operation without a gradient, InvalidArgument for what does not fit, and what
   gradient functions report. After an error the graph is as it was before, unless a gradient function has
   added operations: then everything that was added stays, unused, so that handles remain valid, and the
   message says so.
   - The graph is locked during the call: calls of other threads for this graph wait. A client whose gradient
   functions take a lock of its own (an interpreter's, for example) must not hold that lock in calls that wait
   for the graph. Sessions see the new operations once the call is over. */
TF_CAPI_EXPORT extern void Millrace_AddGradients(TF_Graph* graph, const TF_Output* y, int ny,
                                                 const TF_Output* x, int nx, const Millrace_Gradient* grad_ys,
                                                 const Millrace_GradientOptions* options,
                                                 Millrace_Gradient* gradients, TF_Status* status);

/* What a gradient function is called with. All pointers live until it returns. Fields may be added at the
 * end. */
typedef struct Millrace_GradientCall {
  size_t struct_size;
  void* user_data; /* as it was registered */
  TF_Graph* graph;
  TF_Operation* oper;     /* the operation whose gradient is wanted */
  const char* name_scope; /* for names of new operations: "gradients/<name>_grad" */
  const char* device;     /* that new operations should request */
  int colocate;           /* whether they should be colocated with `oper` */
  int num_outputs;        /* of the operation */
  int num_inputs;
  /* The gradient of each output. If there is none: zeros for outputs of floating, complex or variant type,
     NONE for others. Never all NONE. */
  const Millrace_Gradient* output_gradients;
  /* Whether the gradient of each input is needed; others may be left at NONE. */
  const unsigned char* wanted;
  /* Output: the gradient of each input; initially NONE, which is correct for an input that no output depends
   * on. */
  Millrace_Gradient* input_gradients;
} Millrace_GradientCall;

/* Adds the operations for the gradients of one operation, by any calls of the C API for `call->graph` but
   TF_DeleteGraph. It sets `status` on errors; the computation of gradients then ends with that status.
   Operations that it adds may use any tensor of the graph; in the gradient of a loop their inputs may
   afterwards be replaced by what the tensor was in the iteration. It may call Millrace_AddGradients for the
   same graph. */
typedef void (*Millrace_GradientFunction)(Millrace_GradientCall* call, TF_Status* status);

/* Registers a gradient function for operations of the type `name`, and for those whose attribute
   "_gradient_op_type" is `name`, in `graph`, or, where `graph` is NULL, in all graphs. Functions of a graph
   go before those of all graphs, and those before the built-in ones. Names of gradient functions need not be
   those of ops. `function` NULL: operations of that type are not differentiable, gradients end there.

   AlreadyExists when the graph, or for NULL the process, has an entry of that name already; for NULL that
   includes the built-in ones. `delete_user_data` (may be NULL) is called when the graph is deleted, never for
   NULL, and at once on error. A function for all graphs is also called for operations in the body of a
   function (a FunctionDef) and for graphs of other clients, such as those of the C++ API: `call->graph` is
   then a graph for the time of the call. */
TF_CAPI_EXPORT extern void Millrace_RegisterGradient(TF_Graph* graph, const char* name,
                                                     Millrace_GradientFunction function, void* user_data,
                                                     void (*delete_user_data)(void* user_data),
                                                     TF_Status* status);

/* Results of Millrace_HasGradient: the entry of `name` in `graph` (NULL: for all graphs). */
#define MILLRACE_GRADIENT_UNDEFINED 0 /* no entry */
#define MILLRACE_GRADIENT_DEFINED 1
#define MILLRACE_GRADIENT_NOT_DIFFERENTIABLE 2
TF_CAPI_EXPORT extern int Millrace_HasGradient(TF_Graph* graph, const char* name);

/* Adds the operations that compute the gradients of the inputs of one operation, with the function that is
   registered for `name` (NULL: the one that Millrace_AddGradients would take): what tf's
   get_gradient_function(op)(op, *grads) is. `output_gradients` has an entry per output, `input_gradients`
   gets one per input. New operations are named
   "<prefix>/<type>"; prefix NULL: "<name of the operation>_grad". Options but for prefix, device and colocate
   are not looked at. Errors as above. */
TF_CAPI_EXPORT extern void Millrace_CallGradient(TF_Graph* graph, TF_Operation* oper, const char* name,
                                                 const Millrace_Gradient* output_gradients,
                                                 const Millrace_GradientOptions* options,
                                                 Millrace_Gradient* input_gradients, TF_Status* status);

/* The tensor with the values of `gradient`: for slices the sum of the rows with each index. Operations that
   this needs are added under "<prefix>/" (NULL: at the root). {NULL, -1} for NONE and on error. */
TF_CAPI_EXPORT extern TF_Output Millrace_DenseGradient(TF_Graph* graph, const char* prefix,
                                                       const Millrace_Gradient* gradient, TF_Status* status);

#ifdef __cplusplus
}
#endif

#endif /* MILLRACE_C_GRADIENTS_H_ */
