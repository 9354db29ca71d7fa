#!/usr/bin/env python3
"""Records cases for hammock-onnx-suite from ONNX Runtime: operators of com.microsoft and models of scikit-learn.

  python3 -m venv venv && venv/bin/pip install onnx onnxruntime scikit-learn skl2onnx
  venv/bin/python scripts/onnx_recorded_cases.py FOLDER
"""

import argparse
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

MS = "com.microsoft"
random = np.random.default_rng(7)


def floats(*shape):
    return random.standard_normal(shape).astype(np.float32)


def bytes_of(*shape, signed=False):
    return random.integers(-128 if signed else 0, 128 if signed else 256, shape).astype(np.int8 if signed else np.uint8)


def f(x):
    return np.array(x, np.float32)


def u8(x):
    return np.array(x, np.uint8)


def i8(x):
    return np.array(x, np.int8)


def write(folder, name, model, feed):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    results = session.run(None, feed)
    data = folder / name / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    (folder / name / "model.onnx").write_bytes(model.SerializeToString())
    for i, given in enumerate(session.get_inputs()):
        (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(np.asarray(feed[given.name])).SerializeToString())
    for i, result in enumerate(results):
        if isinstance(result, np.ndarray):
            if result.dtype == object:
                result = result.astype(str).astype(object)
            (data / f"output_{i}.pb").write_bytes(numpy_helper.from_array(result).SerializeToString())


def node_case(folder, name, op, inputs, outputs=1, constants=(), domain=MS, **attributes):
    """Inputs are arrays or None; the positions in `constants` are initialisers."""
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    wanted = [f"y{i}" if isinstance(outputs, int) or i in outputs else "" for i in
              range(outputs if isinstance(outputs, int) else max(outputs) + 1)]
    node = helper.make_node(op, names, wanted, domain=domain, **attributes)
    kind = helper.np_dtype_to_tensor_dtype
    given = [(i, x) for i, x in enumerate(inputs) if x is not None]
    graph = helper.make_graph(
        [node], name,
        [helper.make_tensor_value_info(names[i], kind(x.dtype), x.shape) for i, x in given if i not in constants],
        [helper.make_empty_tensor_value_info(y) for y in wanted if y],
        [numpy_helper.from_array(x, names[i]) for i, x in given if i in constants])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)])
    model.ir_version = 8
    try:
        write(folder, name, model, {names[i]: x for i, x in given if i not in constants})
    except Exception as error:  # a case that the runtime refuses is no case
        print(f"{name}: {str(error)[:300]}")


def fused(folder):
    x = floats(2, 3, 8)
    node_case(folder, "gelu", "Gelu", [x])
    node_case(folder, "fast_gelu", "FastGelu", [x])
    node_case(folder, "fast_gelu_bias", "FastGelu", [x, floats(8)])
    node_case(folder, "bias_gelu", "BiasGelu", [x, floats(8)])
    node_case(folder, "quick_gelu", "QuickGelu", [x], alpha=1.5)
    node_case(folder, "fused_matmul", "FusedMatMul", [floats(2, 4, 3), floats(2, 5, 4)], alpha=0.5, transA=1, transB=1)
    node_case(folder, "fused_matmul_batch", "FusedMatMul", [floats(3, 2, 4), floats(2, 4, 5)], transBatchA=1)
    node_case(folder, "fused_gemm", "FusedGemm", [floats(3, 4), floats(5, 4), floats(5)], transB=1, activation="LeakyRelu",
              activation_alpha=0.2)
    node_case(folder, "fused_conv", "FusedConv", [floats(1, 3, 6, 6), floats(4, 3, 3, 3), floats(4)], pads=[1, 1, 1, 1],
              activation="Relu")
    node_case(folder, "fused_conv_sum", "FusedConv",
              [floats(1, 3, 6, 6), floats(4, 3, 3, 3), floats(4), floats(1, 4, 4, 4)], activation="Clip",
              activation_params=[0.0, 1.0])
    node_case(folder, "skip_layer_norm", "SkipLayerNormalization", [x, floats(2, 3, 8), floats(8), floats(8), floats(8)],
              outputs=[0, 3])
    node_case(folder, "skip_rms_norm", "SkipSimplifiedLayerNormalization", [x, floats(2, 3, 8), floats(8)], outputs=[0, 3])
    node_case(folder, "rms_norm", "SimplifiedLayerNormalization", [x, floats(8)], domain="", epsilon=1e-3)
    node_case(folder, "old_layer_norm", "LayerNormalization", [x, floats(8), floats(8)], domain="")
    ids = random.integers(0, 10, (2, 4)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], np.int32)
    node_case(folder, "embed_layer_norm", "EmbedLayerNormalization",
              [ids, ids % 2, floats(10, 8), floats(6, 8), floats(2, 8), floats(8), floats(8), mask], outputs=2)
    node_case(folder, "inverse", "Inverse", [floats(2, 3, 3)])
    node_case(folder, "expand_dims", "ExpandDims", [x, np.array(-1, np.int32)], constants=[1])
    node_case(folder, "trilu", "Trilu", [floats(2, 4, 4), np.array(1, np.int64)], constants=[1], upper=0)
    node_case(folder, "cdist", "CDist", [floats(3, 4), floats(5, 4)], metric="euclidean")
    for bits, block, depth in ((4, 16, 32), (4, 16, 40), (8, 32, 64)):
        blocks = (depth + block - 1) // block
        packed = bytes_of(6, blocks, block * bits // 8)
        zero = bytes_of(6, (blocks * bits + 7) // 8)
        for zeros in (False, True):
            node_case(folder, f"matmul_{bits}bits_{depth}_{'zero' if zeros else 'plain'}", "MatMulNBits",
                      [floats(2, 3, depth), packed, np.abs(floats(6 * blocks))] + ([zero.reshape(-1)] if zeros else []),
                      constants=[1, 2, 3], K=depth, N=6, bits=bits, block_size=block)


def attention(folder):
    x, w, b = floats(2, 4, 8), floats(8, 24), floats(24)
    node_case(folder, "attention", "Attention", [x, w, b], num_heads=2)
    node_case(folder, "attention_lengths", "Attention", [x, w, b, np.array([3, 4], np.int32)], num_heads=2)
    node_case(folder, "attention_mask", "Attention", [x, w, b, np.array([[1, 1, 0, 1], [1, 1, 1, 1]], np.int32)], num_heads=2)
    node_case(folder, "attention_causal", "Attention", [x, w, b], num_heads=2, unidirectional=1)
    node_case(folder, "attention_past", "Attention", [x, w, b, None, floats(2, 2, 2, 3, 4)], outputs=2, num_heads=2,
              unidirectional=1)
    node_case(folder, "attention_bias", "Attention", [x, w, b, None, None, floats(1, 2, 4, 4)], num_heads=2)
    q, k, v = floats(2, 4, 8), floats(2, 5, 8), floats(2, 5, 8)
    node_case(folder, "multi_head", "MultiHeadAttention", [q, k, v], num_heads=2)
    node_case(folder, "multi_head_bias", "MultiHeadAttention", [q, k, v, floats(24)], num_heads=2, scale=0.3)
    node_case(folder, "multi_head_mask", "MultiHeadAttention",
              [q, k, v, None, np.array([[1, 1, 0, 1, 1], [1, 1, 1, 1, 0]], np.int32), floats(1, 2, 4, 5)], num_heads=2)
    node_case(folder, "multi_head_past", "MultiHeadAttention",
              [q, floats(2, 4, 8), floats(2, 4, 8), None, None, None, floats(2, 2, 3, 4), floats(2, 2, 3, 4)], outputs=3,
              num_heads=2)
    caches = [floats(16, 4), floats(16, 4)]
    node_case(folder, "rotary", "RotaryEmbedding", [floats(2, 3, 16), np.array([2], np.int64), *caches])
    node_case(folder, "rotary_positions", "RotaryEmbedding",
              [floats(2, 2, 3, 8), np.array([[0, 1, 2], [4, 5, 6]], np.int64), *caches], interleaved=1)
    for rotary in (0, 1):
        extra = [floats(16, 8), floats(16, 8)] if rotary else []
        node_case(folder, f"grouped_prompt_{rotary}", "GroupQueryAttention",
                  [floats(1, 3, 64), floats(1, 3, 32), floats(1, 3, 32), None, None, np.array([2], np.int32),
                   np.array(3, np.int32), *extra], outputs=3, constants=[6], num_heads=4, kv_num_heads=2, do_rotary=rotary)
        node_case(folder, f"grouped_token_{rotary}", "GroupQueryAttention",
                  [floats(2, 1, 64), floats(2, 1, 32), floats(2, 1, 32), floats(2, 2, 5, 16), floats(2, 2, 5, 16),
                   np.array([5, 5], np.int32), np.array(6, np.int32), *extra], outputs=3, constants=[6], num_heads=4,
                  kv_num_heads=2, do_rotary=rotary)
    node_case(folder, "grouped_packed_window", "GroupQueryAttention",
              [floats(1, 6, 64), None, None, None, None, np.array([5], np.int32), np.array(6, np.int32)], outputs=3,
              constants=[6], num_heads=4, kv_num_heads=2, local_window_size=3)


def quantized(folder):
    a, b = bytes_of(2, 3, 4), bytes_of(2, 3, 4)
    pair = [a, f(0.113), u8(120), b, f(0.0717), u8(130), f(0.1317), u8(128)]
    every = list(range(8))
    scales = [i for i in every if i not in (0, 3)]
    node_case(folder, "qlinear_add", "QLinearAdd", pair, constants=scales)
    node_case(folder, "qlinear_mul", "QLinearMul", pair, constants=scales)
    one = [a, f(0.1), u8(120), f(0.01), u8(3)]
    node_case(folder, "qlinear_sigmoid", "QLinearSigmoid", one, constants=[1, 2, 3, 4])
    node_case(folder, "qlinear_leaky_relu", "QLinearLeakyRelu", one[:3] + [f(0.1), u8(100)], constants=[1, 2, 3, 4], alpha=0.2)
    node_case(folder, "qlinear_softmax", "QLinearSoftmax", [a, f(0.05), u8(120), f(1 / 256), u8(0)], constants=[1, 2, 3, 4],
              axis=-1, opset=13)
    image = bytes_of(1, 4, 6, 6)
    node_case(folder, "qlinear_average_pool", "QLinearAveragePool", [image, f(0.1), u8(120), f(0.1), u8(120)],
              constants=[1, 2, 3, 4], kernel_shape=[3, 3], strides=[2, 2])
    node_case(folder, "qlinear_global_average", "QLinearGlobalAveragePool", [image, f(0.1), u8(120), f(0.05), u8(110)],
              constants=[1, 2, 3, 4], channels_last=0)
    node_case(folder, "qlinear_concat", "QLinearConcat", [f(0.1), u8(128), a, f(0.1), u8(120), b, f(0.07), u8(130)],
              constants=[0, 1, 3, 4, 6, 7], axis=1)
    node_case(folder, "qlinear_where", "QLinearWhere",
              [random.integers(0, 2, (2, 3, 4)).astype(bool), a, f(0.1), u8(120), b, f(0.07), u8(130), f(0.1), u8(128)],
              constants=[2, 3, 5, 6, 7, 8])
    node_case(folder, "qgemm", "QGemm", [bytes_of(3, 16), f(0.02), u8(127), bytes_of(5, 16, signed=True), f(0.01), i8(0),
                                         random.integers(-500, 500, 5).astype(np.int32), f(0.1), u8(128)],
              constants=[1, 2, 3, 4, 5, 6, 7, 8], transB=1)
    node_case(folder, "matmul_integer_to_float", "MatMulIntegerToFloat",
              [bytes_of(3, 16), bytes_of(16, 5, signed=True), f(0.02), f(0.01), u8(127), i8(0), floats(5)],
              constants=[1, 2, 3, 4, 5, 6])
    node_case(folder, "dynamic_matmul", "DynamicQuantizeMatMul", [floats(3, 16), bytes_of(16, 5, signed=True), f(0.01), i8(0),
                                                                  floats(5)], constants=[1, 2, 3, 4])
    conv = [bytes_of(1, 6, 6, 3), f(0.1), u8(120), bytes_of(4, 3, 3, 3, signed=True), f(0.02), i8(0), f(0.5), u8(128)]
    node_case(folder, "qlinear_conv_last", "QLinearConv", conv, constants=list(range(1, 8)), channels_last=1,
              pads=[1, 1, 1, 1])
    node_case(folder, "max_pool_last", "NhwcMaxPool", [bytes_of(1, 6, 6, 3)], kernel_shape=[2, 2], strides=[2, 2])
    node_case(folder, "qattention", "QAttention",
              [bytes_of(1, 4, 8), bytes_of(8, 24, signed=True), floats(24), f(0.02), f(0.02), None, u8(128), i8(0)],
              constants=[1, 2, 3, 4, 6, 7], num_heads=2)
    node_case(folder, "dynamic_lstm", "DynamicQuantizeLSTM",
              [floats(3, 2, 4), bytes_of(1, 4, 20, signed=True), bytes_of(1, 5, 20, signed=True), floats(1, 40), None, None,
               None, None, np.array([0.01], np.float32), np.array([0], np.int8), np.array([0.01], np.float32),
               np.array([0], np.int8)], outputs=3, constants=[1, 2, 3, 8, 9, 10, 11], hidden_size=5)


def learned(folder):
    import skl2onnx
    from sklearn import datasets, ensemble, feature_extraction, impute, linear_model, naive_bayes, neural_network, pipeline
    from sklearn import preprocessing, svm, tree
    from skl2onnx.common.data_types import FloatTensorType

    x, y = datasets.load_iris(return_X_y=True)
    x = x.astype(np.float32)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    two, label = x[:100], y[:100]
    models = {
        "logistic": (linear_model.LogisticRegression(max_iter=500), x, y),
        "logistic_names": (linear_model.LogisticRegression(max_iter=500), x, names),
        "logistic_binary": (linear_model.LogisticRegression(), two, label),
        "ridge": (linear_model.Ridge(), x, x[:, 0] * 2 + y),
        "forest": (ensemble.RandomForestClassifier(5, random_state=1), x, y),
        "forest_names": (ensemble.RandomForestClassifier(5, random_state=1), x, names),
        "forest_regression": (ensemble.RandomForestRegressor(5, random_state=1), x, x[:, 0] + y),
        "boosting": (ensemble.GradientBoostingClassifier(n_estimators=5, random_state=1), x, y),
        "boosting_binary": (ensemble.GradientBoostingClassifier(n_estimators=5, random_state=1), two, label),
        "tree": (tree.DecisionTreeClassifier(max_depth=3), x, y),
        "svc": (svm.SVC(), x, y),
        "svc_binary": (svm.SVC(kernel="poly"), two + floats(100, 4), label),
        "svc_probability": (svm.SVC(probability=True, random_state=1), x, y),
        "svc_names": (svm.SVC(kernel="sigmoid"), x, names),
        "svr": (svm.SVR(), x, x[:, 0] + y),
        "one_class": (svm.OneClassSVM(), x, None),
        "scaled_mlp": (pipeline.make_pipeline(preprocessing.StandardScaler(), neural_network.MLPClassifier(
            max_iter=30, random_state=1)), x, y),
        "bayes": (naive_bayes.GaussianNB(), x, y),
    }
    holes = x.copy()
    holes[::5, 1] = np.nan
    models["imputed"] = (pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.Normalizer(),
                                                linear_model.LinearRegression()), holes, x[:, 0])
    for name, (model, data, target) in models.items():
        model.fit(data, target)
        zipped = hasattr(model, "classes_") and name not in ("logistic", "svc_names")
        made = skl2onnx.to_onnx(model, initial_types=[("x", FloatTensorType([None, data.shape[1]]))], target_opset=17,
                                options={id(model): {"zipmap": False}} if zipped else None)
        # Off the vectors of one-class machines, whose decision there is 0 but for rounding.
        write(folder, "learned_" + name, made, {"x": data[::9] * np.float32(1.01)})


def grouped(folder):
    """GroupQueryAttention with what newer exporters add to it."""
    caches = [floats(16, 8), floats(16, 8)]

    def case(name, batch=1, length=3, total=3, past=None, positions=None, bias=None, sink=None, **attributes):
        buffers = [floats(batch, 2, past, 16) if past else None for _ in range(2)]
        rotary = caches if "do_rotary" in attributes else [None, None]
        node_case(folder, f"grouped_{name}", "GroupQueryAttention",
                  [floats(batch, length, 64), floats(batch, length, 32), floats(batch, length, 32), *buffers,
                   np.full(batch, total - 1, np.int32), np.array(total, np.int32), *rotary, positions, bias, sink],
                  outputs=3, constants=[6], num_heads=4, kv_num_heads=2, **attributes)

    case("smooth", smooth_softmax=1)
    case("sink", sink=floats(4))
    case("sink_window", length=4, total=4, sink=floats(4), softcap=2.0, local_window_size=2)
    case("bias", bias=floats(1, 1, 3, 3), softcap=2.0)
    case("bias_token", batch=2, length=1, total=6, past=5, bias=floats(2, 4, 1, 6))
    case("positions", batch=2, do_rotary=1, positions=np.array([[3, 1, 2], [5, 6, 7]], np.int64))
    case("positions_token", batch=2, length=1, total=6, past=5, do_rotary=1, positions=np.array([[7], [2]], np.int64))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    fused(folder)
    attention(folder)
    quantized(folder)
    learned(folder)
    grouped(folder)
    print(f"{len(list(folder.iterdir()))} cases of onnxruntime {onnxruntime.__version__}")


if __name__ == "__main__":
    main()
