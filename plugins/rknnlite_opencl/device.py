"""The one OpenCL device of the process, kernels built for it, and the library behind it."""

from __future__ import annotations

import contextlib
import ctypes as ct
import functools
import hashlib
import os
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rknnlite_programs import buildcache

from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.extras import EXTRAS
from rknnlite.log import logger
from rknnlite.native.forks import Owner, made_before_fork

__all__ = ["Device", "device", "opencl_library", "unavailable"]


@dataclass(frozen=True)
class Device:
    """Context and in-order queue of pyopencl; ``lock`` serves calls that several threads would mix up."""

    cl: Any
    context: Any
    queue: Any
    name: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    owner: Owner = field(default_factory=Owner)

    def build(self, source: str, name: str, options: str) -> Any:
        """A kernel object of its own; the program comes from the cache when it was built before.

        Raises ParamInvalid with the compiler's log, or naming the kernels that the source has.
        """
        program = self._program(source, options)
        try:
            return self.cl.Kernel(program, name)
        except self.cl.Error:
            names = program.get_info(self.cl.program_info.KERNEL_NAMES)
            raise ParamInvalid(
                f"the OpenCL source has no kernel {name!r}; there are: {names or 'none'}"
            ) from None

    def _program(self, source: str, options: str) -> Any:
        if "#include" in source:  # what is included may change
            return self._compile(source, options)
        target = self.context.devices[0]
        key = repr((source, options, target.name, target.version, target.driver_version)).encode()
        file = buildcache.cache_dir() / f"{hashlib.sha256(key).hexdigest()[:32]}.clbin"
        binary = buildcache.fetch(file)
        if binary is not None:
            try:
                with _silent():
                    return self.cl.Program(self.context, [target], [binary]).build(options)
            except self.cl.Error as error:  # the driver has changed after all: build anew
                logger.debug("cached kernel %s is not used: %s", file.name, error)
        program = self._compile(source, options)
        try:
            buildcache.keep(file, program.get_info(self.cl.program_info.BINARIES)[0])
        except OSError as error:
            logger.debug("the kernel cannot be kept: %s", error)
        return program

    def _compile(self, source: str, options: str) -> Any:
        program = self.cl.Program(self.context, source)
        try:
            with _silent():
                return program.build(options, cache_dir=False)
        except self.cl.Error as error:
            raise ParamInvalid(f"the OpenCL kernel does not build on {self.name}: {error}") from None


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Without pyopencl's warning that a compiler has said something: an error has the text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@functools.cache
def _found() -> Device | str:
    """The device, or why there is none."""
    try:
        import pyopencl as cl
    except ImportError as error:
        return f"pyopencl is missing ({error}); {EXTRAS['opencl'].remedy}"
    except Exception as error:
        return f"pyopencl cannot be used: {error}"
    try:
        devices = [d for p in cl.get_platforms() for d in p.get_devices()]
    except Exception as error:
        return f"no OpenCL platform ({error}); install a driver for the GPU, or pocl-opencl-icd to compute on the CPU"
    if not devices:
        return "no OpenCL device; the driver is installed but finds no GPU (permissions of /dev/mali0 or /dev/dri?)"
    chosen = next((d for d in devices if d.type & cl.device_type.GPU), devices[0])
    context = cl.Context([chosen])
    return Device(cl, context, cl.CommandQueue(context), chosen.name.strip())


def device() -> Device:
    """The device: a GPU where there is one. Raises BackendUnavailable with the reason."""
    found = _found()
    if isinstance(found, str):
        raise BackendUnavailable(found)
    if not found.owner.is_here:
        remedy = "use it in the child only, or start processes with spawn"
        raise BackendUnavailable(made_before_fork("OpenCL", remedy))
    return found


def unavailable() -> str | None:
    """Why there is no device; None when there is one."""
    try:
        device()
    except BackendUnavailable as error:
        return str(error)
    return None


@functools.cache
def opencl_library() -> Any:
    """The system's OpenCL library, visible to plugins that were linked without naming it.

    Wheels of pyopencl bring a loader of their own, and objects that one loader made crash another (cl_khr_icd 2.0). So
    pyopencl's comes first in the process: plugins, and our import function, call the one that made their context.
    """
    if not isinstance(found := _found(), str):
        ct.CDLL(found.cl._cl.__file__, mode=os.RTLD_NOW | ct.RTLD_GLOBAL)
    for name in ("libOpenCL.so.1", "libOpenCL.so", "libmali.so.1", "libmali.so"):
        try:
            return ct.CDLL(name, mode=os.RTLD_NOW | ct.RTLD_GLOBAL)
        except OSError:
            continue
    raise BackendUnavailable(
        "no OpenCL library for compiled GPU operators; install ocl-icd-libopencl1 or libmali"
    )
