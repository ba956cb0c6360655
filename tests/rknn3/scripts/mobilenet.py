"""An image classifier as programs for rknn3-toolkit-lite are written."""

import sys

import numpy as np

from rknn3lite.api import RKNN3Lite, dump_tensor_attr


def show_top5(result):
    output = result[0].reshape(-1)
    for index in sorted(range(len(output)), key=lambda k: output[k], reverse=True)[:5]:
        print(index, output[index])


if __name__ == "__main__":
    model, weight, image, answer = sys.argv[1:]
    rknn_lite = RKNN3Lite()

    ret = rknn_lite.load_rknn(model_path=model, weight_path=weight)
    if ret != 0:
        print("Load RKNN model failed")
        exit(ret)

    device_ids = rknn_lite.get_devices_id()
    ret = rknn_lite.init_runtime(target="rk1820", core_mask=0x01, device_id=device_ids[0])
    if ret != 0:
        print("Init runtime environment failed")
        exit(ret)

    for attr in rknn_lite.get_inputs_tensor_attr():
        dump_tensor_attr(attr, prefix="input")
    for attr in rknn_lite.get_outputs_tensor_attr():
        dump_tensor_attr(attr, prefix="output")

    img = np.load(image)
    outputs = rknn_lite.inference(inputs=[img])
    show_top5(outputs[0])
    np.save(answer, outputs[0])
    rknn_lite.release()
