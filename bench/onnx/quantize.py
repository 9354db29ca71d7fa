#!/usr/bin/env python3
"""A model in 8-bit integers from one in floats: python3 bench/onnx/quantize.py FOLDER RESULT [--format qdq]

FOLDER has a model.onnx and test_data_set_0. Ranges of activations are observed on that input, brighter and darker, by
ONNX Runtime's quantizer; RESULT gets the model with the input and ONNX Runtime's outputs, for hammock-onnx-suite and
compare.py. Matmuls and convolutions are quantised, with `--all` other operators too: as QLinearConv and the like, or with
`--format qdq` as those of floats between QuantizeLinear and DequantizeLinear. Needs onnxruntime, onnx and sympy."""

import argparse
import pathlib
import shutil
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    import sympy  # noqa: F401, which the quantizer imports late
    from onnx import numpy_helper, version_converter
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)  # the test's status for it


class Samples(CalibrationDataReader):
    def __init__(self, name, x):
        self.samples = iter([{name: (x * scale).astype(x.dtype)} for scale in (0.8, 0.9, 1.0, 1.1, 1.2)])

    def get_next(self):
        return next(self.samples, None)


def constants_to_initializers(graph):
    """The quantizer takes initialisers for weights, and what Constant nodes make for activations."""
    for node in [each for each in graph.node if each.op_type == "Constant" and each.attribute[0].name == "value"]:
        graph.initializer.append(node.attribute[0].t)
        graph.initializer[-1].name = node.output[0]
        graph.node.remove(node)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("result", type=pathlib.Path)
    parser.add_argument("--format", choices=["operators", "qdq"], default="operators")
    parser.add_argument("--all", action="store_true", help="quantise every operator, not only matmuls and convolutions")
    options = parser.parse_args()
    data = options.result / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    shutil.copy(options.folder / "test_data_set_0" / "input_0.pb", data)
    tensor = onnx.TensorProto()
    tensor.ParseFromString((data / "input_0.pb").read_bytes())
    x = numpy_helper.to_array(tensor)
    model = onnx.load(str(options.folder / "model.onnx"))
    if model.opset_import[0].version < 13:  # scales of channels came with it
        model = version_converter.convert_version(model, 13)
    constants_to_initializers(model.graph)
    weights = {each.name for each in model.graph.initializer}
    name = next(each.name for each in model.graph.input if each.name not in weights)
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, folder + "/model.onnx")
        quant_pre_process(folder + "/model.onnx", folder + "/prepared.onnx", skip_symbolic_shape=True)
        kind = QuantFormat.QOperator if options.format == "operators" else QuantFormat.QDQ
        quantize_static(folder + "/prepared.onnx", str(options.result / "model.onnx"), Samples(name, x), quant_format=kind,
                        op_types_to_quantize=None if options.all else ["Conv", "Gemm", "MatMul"],
                        per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    session = onnxruntime.InferenceSession(str(options.result / "model.onnx"), providers=["CPUExecutionProvider"])
    for i, y in enumerate(session.run(None, {name: x})):
        (data / f"output_{i}.pb").write_bytes(numpy_helper.from_array(y).SerializeToString())
    before, after = [(folder / "model.onnx").stat().st_size for folder in (options.folder, options.result)]
    print(f"{before} -> {after} bytes")


if __name__ == "__main__":
    main()
