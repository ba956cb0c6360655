"""client.py TASK MODEL FOLDER: the library by ctypes, without any package, as bindings of Python use it.

Runs in any Python from 3.7 on. FOLDER has in0.u8 and out0.f32; the tasks are the functions at the end.
"""

# ruff: noqa: PTH208, PTH118, PTH123, UP031
import ctypes
import os
import signal
import sys
import threading
import time
from ctypes import (
    byref,
    c_char,
    c_char_p,
    c_float,
    c_int,
    c_int8,
    c_int32,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)

CTX_INVALID = -7


class Attr(ctypes.Structure):
    _fields_ = [
        ("index", c_uint32), ("n_dims", c_uint32), ("dims", c_uint32 * 16), ("name", c_char * 256), ("n_elems", c_uint32),
        ("size", c_uint32), ("fmt", c_int), ("type", c_int), ("qnt_type", c_int), ("fl", c_int8), ("zp", c_int32),
        ("scale", c_float), ("w_stride", c_uint32), ("size_with_stride", c_uint32), ("pass_through", c_uint8),
        ("h_stride", c_uint32),
    ]  # fmt: skip


class Number(ctypes.Structure):
    _fields_ = [("n_input", c_uint32), ("n_output", c_uint32)]


class Version(ctypes.Structure):
    _fields_ = [("api", c_char * 256), ("driver", c_char * 256)]


class Range(ctypes.Structure):
    _fields_ = [
        ("index", c_uint32), ("shape_number", c_uint32), ("fmt", c_int), ("name", c_char * 256),
        ("dyn_range", c_uint32 * 16 * 512), ("n_dims", c_uint32),
    ]  # fmt: skip


class Input(ctypes.Structure):
    _fields_ = [
        ("index", c_uint32), ("buf", c_void_p), ("size", c_uint32), ("pass_through", c_uint8), ("type", c_int), ("fmt", c_int),
    ]  # fmt: skip


class Output(ctypes.Structure):
    _fields_ = [
        ("want_float", c_uint8), ("is_prealloc", c_uint8), ("index", c_uint32), ("buf", c_void_p), ("size", c_uint32),
    ]  # fmt: skip


def load():
    lib = ctypes.CDLL("librknnrt.so")
    lib.rknn_init.argtypes = lib.rknn_init2.argtypes = [c_void_p, c_char_p, c_uint32, c_uint32, c_void_p]
    lib.rknn_query.argtypes = [c_uint64, c_int, c_void_p, c_uint32]
    lib.rknn_inputs_set.argtypes = lib.rknn_outputs_release.argtypes = [c_uint64, c_uint32, c_void_p]
    lib.rknn_outputs_get.argtypes = [c_uint64, c_uint32, c_void_p, c_void_p]
    lib.rknn_run.argtypes = [c_uint64, c_void_p]
    lib.rknn_destroy.argtypes = [c_uint64]
    return lib


os.environ["RKNN_CLIENT"] = str(os.getpid())
LIB = load()


def check(code, wanted=0):
    if code != wanted:
        raise SystemExit("a call answered %d, not %d" % (code, wanted))


def read(name):
    with open(os.path.join(sys.argv[3], name), "rb") as file:
        return file.read()


def opened(init=None):
    with open(sys.argv[2], "rb") as file:
        data = file.read()
    context = c_uint64(0)
    check((init or LIB.rknn_init)(byref(context), data, len(data), 0, None))
    return context.value


def query(context, command, info):
    check(LIB.rknn_query(context, command, byref(info), ctypes.sizeof(info)))
    return info


def infer(context, pixels, golden):
    """The calls of the vendor's wheel, in its order."""
    number = query(context, 0, Number())
    inputs = (Input * number.n_input)()
    for i in range(number.n_input):
        query(context, 1, Attr(index=i))
        inputs[i].index, inputs[i].size, inputs[i].type, inputs[i].fmt = i, len(pixels), 3, 1
        inputs[i].buf = ctypes.cast(c_char_p(pixels), c_void_p)
    check(LIB.rknn_inputs_set(context, number.n_input, inputs))
    check(LIB.rknn_run(context, None))
    number = query(context, 0, Number())
    outputs = (Output * number.n_output)()
    for i in range(number.n_output):
        query(context, 2, Attr(index=i))
        outputs[i].index, outputs[i].want_float = i, 1
    check(LIB.rknn_outputs_get(context, number.n_output, outputs, None))
    found = ctypes.string_at(outputs[0].buf, outputs[0].size)
    check(LIB.rknn_outputs_release(context, number.n_output, outputs))
    if found != golden:
        raise SystemExit("other numbers")


def frames(context, count=3):
    pixels, golden = read("in0.u8"), read("out0.f32")
    for _ in range(count):
        infer(context, pixels, golden)


def server():
    """Ids of all processes that got this one's environment and are not it: the one that computes is among them."""
    found, mark = [], ("RKNN_CLIENT=%s" % os.environ["RKNN_CLIENT"]).encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % name, "rb") as file:
                if mark in file.read().split(b"\0") and int(name) != os.getpid():
                    found.append(int(name))
        except OSError:
            continue
    return found


# -- tasks -------------------------------------------------------------------------------------------------


def wheel():
    """One inference as the vendor's wheel makes it: its lookups, flag, queries at the start, then frames."""
    names = (
        "rknn_init2",
        "rknn_init",
        "rknn_query",
        "rknn_run",
        "rknn_set_core_mask",
        "rknn_inputs_set",
        "rknn_outputs_get",
    )
    if not all(hasattr(LIB, name) for name in names):
        raise SystemExit("a function of the library is missing")
    context = opened(LIB.rknn_init2)
    version = query(context, 5, Version())
    if not version.api or not version.driver:
        raise SystemExit("no version")
    if LIB.rknn_query(context, 13, byref(Range()), ctypes.sizeof(Range)) >= 0:
        raise SystemExit("a static model has a range of shapes")
    frames(context)
    check(LIB.rknn_destroy(context))


def many():
    """Eight threads, a context each."""
    failures = []

    def work():
        try:
            context = opened()
            frames(context, 10)
            check(LIB.rknn_destroy(context))
        except SystemExit as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def fork():
    """A child does not have its parent's contexts, and may open its own; the parent goes on."""
    context = opened()
    frames(context)
    child = os.fork()
    if not child:
        status = 1
        try:
            check(LIB.rknn_run(context, None), CTX_INVALID)
            check(LIB.rknn_destroy(context), CTX_INVALID)
            own = opened()
            frames(own)
            check(LIB.rknn_destroy(own))
            status = 0
        finally:
            os._exit(status)
    frames(context)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the child failed")
    frames(context)
    check(LIB.rknn_destroy(context))


def wait_loop():
    """A program that starts processes and waits for all its children does not meet the library's."""
    seen = []
    signal.signal(signal.SIGCHLD, lambda *_: seen.append(True))
    context = opened()
    frames(context)
    del seen[:]
    children = [os.fork() for _ in range(2)]
    if not all(children):
        os._exit(0)
    ended = []
    while True:
        try:
            ended.append(os.wait()[0])
        except ChildProcessError:
            break
    if sorted(ended) != sorted(children) or not seen:
        raise SystemExit("wait() found %r, not %r" % (ended, children))
    frames(context)
    check(LIB.rknn_destroy(context))


def ignored():
    """SIGCHLD ignored: the kernel reaps children by itself."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    context = opened()
    frames(context)
    check(LIB.rknn_destroy(context))
    context = opened()
    frames(context)
    check(LIB.rknn_destroy(context))


def interrupted():
    """Ctrl-C, which the whole group of the terminal hears, ends no computation."""
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(True))
    context = opened()
    for _ in range(3):
        os.killpg(0, signal.SIGINT)
        frames(context)
    if not heard:
        raise SystemExit("no signal came")
    check(LIB.rknn_destroy(context))


def alarms():
    """Signals all the time: calls go on where they were interrupted."""
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    context = opened()
    frames(context, 50)
    check(LIB.rknn_destroy(context))
    signal.setitimer(signal.ITIMER_REAL, 0)


def killed():
    """The server dies: a code, not a hang, and the next context has another server."""
    context, other = opened(), opened()
    frames(context)
    for pid in server():
        os.kill(pid, signal.SIGKILL)
    pixels = read("in0.u8")
    given = Input(buf=ctypes.cast(c_char_p(pixels), c_void_p), size=len(pixels), type=3, fmt=1)
    first = LIB.rknn_inputs_set(context, 1, byref(given)) or LIB.rknn_run(context, None)
    second = LIB.rknn_run(other, None)
    if not -14 <= first < 0 or not -14 <= second < 0:
        raise SystemExit("without a server a frame answered %d and %d" % (first, second))
    again = opened()
    frames(again)
    check(LIB.rknn_destroy(again))
    LIB.rknn_destroy(context)
    LIB.rknn_destroy(other)


def left_open():
    """The program ends without destroying what it has; its children are those of the line printed."""
    frames(opened())
    print(*server())


def stays():
    """Runs until it is killed."""
    frames(opened())
    print(*server(), flush=True)
    time.sleep(600)


def no_interpreter():
    """-3 and one line, again and again; no context."""
    context = c_uint64(99)
    for _ in range(2):
        check(LIB.rknn_init(byref(context), sys.argv[2].encode(), 0, 0, None), -3)
        if context.value != 99:
            raise SystemExit("there is a context")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
