"""The name ``rknn-toolkit-lite2`` for programs that look for that distribution: no code, it needs rknnlite.

pip install . ./tools/companion                                      # version 2.3.2
RKNN_TOOLKIT_LITE2_VERSION=2.5.0 pip install . ./tools/companion     # for programs that ask for >=2.5
"""

import os

from setuptools import setup

setup(
    name="rknn-toolkit-lite2",
    version=os.environ.get("RKNN_TOOLKIT_LITE2_VERSION") or "2.3.2",
    description="rknnlite under the name of the vendor's distribution",
    long_description="Holds no code: programs that ask importlib.metadata for rknn-toolkit-lite2 find rknnlite.",
    license="Apache-2.0",
    python_requires=">=3.9",
    install_requires=["rknnlite"],
    packages=[],
    py_modules=[],
    keywords=["rknnlite-companion"],
)
