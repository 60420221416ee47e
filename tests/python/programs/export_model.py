# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A model exported in every way and loaded again."""
from __future__ import print_function
import tensorflow as tf, numpy as np, os, shutil
from tensorflow.python.framework import graph_util, graph_io
from tensorflow.python.tools import freeze_graph, optimize_for_inference_lib, inspect_checkpoint
from tensorflow.python.saved_model import signature_constants, tag_constants, builder as saved_model_builder
from tensorflow.python.platform import gfile
from tensorflow.contrib.framework.python.framework import checkpoint_utils

D = "ex"
shutil.rmtree(D, True)
os.makedirs(D)
x = tf.placeholder(tf.float32, [None, 4], name="x")
ser = tf.placeholder(tf.string, name="tf_example")
te = tf.parse_example(ser, {"x": tf.FixedLenFeature(shape=[4], dtype=tf.float32)})
xx = tf.identity(te["x"], name="x_in")


def nn(t, reuse=None):
    with tf.variable_scope("m", reuse=reuse):
        return tf.nn.softmax(
            tf.layers.dense(tf.layers.batch_normalization(tf.layers.dense(t, 5, tf.nn.relu)), 3),
            name="final_result",
        )


y = nn(x)
vals, idx = tf.nn.top_k(y, 2)
tab = tf.contrib.lookup.index_to_string_table_from_tensor(tf.constant(["a", "b", "c"]))
cls = tab.lookup(tf.to_int64(idx))
with tf.Session() as s:
    s.run(tf.global_variables_initializer())
    s.run(tf.tables_initializer())
    a = np.random.rand(2, 4)
    ref = s.run(y, {x: a})
    b = saved_model_builder.SavedModelBuilder(os.path.join(tf.compat.as_bytes(D), tf.compat.as_bytes("1")))
    sig = tf.saved_model.signature_def_utils.build_signature_def(
        inputs={"images": tf.saved_model.utils.build_tensor_info(x)},
        outputs={
            "scores": tf.saved_model.utils.build_tensor_info(y),
            "classes": tf.saved_model.utils.build_tensor_info(cls),
        },
        method_name=signature_constants.PREDICT_METHOD_NAME,
    )
    b.add_meta_graph_and_variables(
        s,
        [tag_constants.SERVING],
        signature_def_map={"predict_images": sig, signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: sig},
        legacy_init_op=tf.group(tf.tables_initializer(), name="legacy_init_op"),
        clear_devices=True,
    )
    print(b.save())
    tf.saved_model.simple_save(
        s, D + "/2", inputs={"x": x}, outputs={"y": y}, legacy_init_op=tf.tables_initializer()
    )
    saver = tf.train.Saver(write_version=tf.train.SaverDef.V2, sharded=False)
    ck = saver.save(s, D + "/model.ckpt", global_step=7, latest_filename="chk")
    tf.train.write_graph(s.graph.as_graph_def(), D, "g.pbtxt")
    tf.train.write_graph(s.graph_def, D, "g.pb", as_text=False)
    out = graph_util.convert_variables_to_constants(s, s.graph.as_graph_def(), ["m/final_result"])
    with gfile.FastGFile(D + "/out.pb", "wb") as f:
        f.write(out.SerializeToString())
freeze_graph.freeze_graph(
    D + "/g.pbtxt",
    "",
    False,
    ck,
    "m/final_result",
    "save/restore_all",
    "save/Const:0",
    D + "/frozen.pb",
    True,
    "",
)
freeze_graph.freeze_graph(
    input_graph=D + "/g.pb",
    input_saver="",
    input_binary=True,
    input_checkpoint=ck,
    output_node_names="m/final_result",
    restore_op_name=None,
    filename_tensor_name=None,
    output_graph=D + "/frozen2.pb",
    clear_devices=True,
    initializer_nodes="",
)
print(checkpoint_utils.list_variables(ck)[:2], tf.train.latest_checkpoint(D, latest_filename="chk"))
inspect_checkpoint.print_tensors_in_checkpoint_file(
    file_name=ck, tensor_name="m/dense/bias", all_tensors=False
)
rd = tf.train.NewCheckpointReader(ck)
print(sorted(rd.get_variable_to_shape_map().items())[0], rd.has_tensor("q"), rd.get_tensor("m/dense/bias"))
for f in ("out", "frozen", "frozen2"):
    g = tf.Graph()
    gd = tf.GraphDef()
    with open(D + "/%s.pb" % f, "rb") as h:
        gd.ParseFromString(h.read())
    if f == "out":
        gd = optimize_for_inference_lib.optimize_for_inference(
            gd, ["x"], ["m/final_result"], tf.float32.as_datatype_enum
        )
    gd = graph_util.remove_training_nodes(gd)
    gd = graph_util.extract_sub_graph(gd, ["m/final_result"])
    with g.as_default():
        tf.import_graph_def(gd)
    i = g.get_operation_by_name("import/x")
    o = g.get_operation_by_name("import/m/final_result")
    with tf.Session(graph=g) as s:
        assert np.allclose(s.run(o.outputs[0], {i.outputs[0]: a}), ref, atol=1e-5)
with tf.Session(graph=tf.Graph()) as s:
    m = tf.saved_model.loader.load(s, [tf.saved_model.tag_constants.SERVING], D + "/1")
    q = m.signature_def["predict_images"]
    print(
        q.method_name,
        s.run([q.outputs["scores"].name, q.outputs["classes"].name], {q.inputs["images"].name: a})[1],
    )
tf.reset_default_graph()
im = tf.train.import_meta_graph(ck + ".meta")
with tf.Session() as s:
    im.restore(s, ck)
    print(np.allclose(s.run("m/final_result:0", {"x:0": a}), ref))
print(tf.saved_model.loader.maybe_saved_model_directory(D + "/1"))
