"""Runs exported files by ONNX Runtime and compares with recorded outputs: runtime_judge.py EXPORTED SUITE

EXPORTED has NAME.onnx for cases NAME of SUITE, as `hammock-onnx-suite SUITE --save EXPORTED` leaves them. Exit
status 77 where onnxruntime is not installed. The runtime and onnx are in the process together with nothing of ours;
files are judged alone."""

import pathlib
import sys

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def read(path):
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


def main():
    exported, suite = map(pathlib.Path, sys.argv[1:3])
    files = sorted(exported.glob("*.onnx"))
    wrong = 0
    for file in files:
        data = suite / file.stem / "test_data_set_0"
        try:
            onnx.checker.check_model(str(file))
            session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
            original = onnx.load(str(suite / file.stem / "model.onnx"), load_external_data=False).graph
            weights = {each.name for each in original.initializer}
            names = [each.name for each in original.input if each.name not in weights]
            feed = {given.name: read(data / f"input_{names.index(given.name)}.pb") for given in session.get_inputs()}
            for i, result in enumerate(session.run(None, feed)):
                np.testing.assert_allclose(result, read(data / f"output_{i}.pb"), rtol=1e-3, atol=1e-4)
        except Exception as error:  # one case after another
            wrong += 1
            print(f"FAIL {file.stem}: {str(error).strip()[:300]}")
    print(f"{len(files) - wrong} of {len(files)} exported files give the recorded outputs in ONNX Runtime")
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main())
