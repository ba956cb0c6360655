"""A program in the form of other people's chat pages, in the API of 1.1: a thread runs, what is heard is shown meanwhile.

``gradio_like.py MODEL QUESTION ...`` prints the answers, a line for each, and how often what is shown grew.
"""

import ctypes
import sys
import threading

lib = ctypes.CDLL("lib/librkllmrt.so")


class Extend(ctypes.Structure):
    _fields_ = [("base_domain_id", ctypes.c_int32), ("reserved", ctypes.c_uint8 * 112)]


class Param(ctypes.Structure):
    _fields_ = [
        ("model_path", ctypes.c_char_p),
        *[(name, ctypes.c_int32) for name in ("max_context_len", "max_new_tokens", "top_k")],
        *[(name, ctypes.c_float) for name in ("top_p", "temperature", "repeat_penalty")],
        *[(name, ctypes.c_float) for name in ("frequency_penalty", "presence_penalty")],
        ("mirostat", ctypes.c_int32),
        ("mirostat_tau", ctypes.c_float),
        ("mirostat_eta", ctypes.c_float),
        ("skip_special_token", ctypes.c_bool),
        ("is_async", ctypes.c_bool),
        *[(name, ctypes.c_char_p) for name in ("img_start", "img_end", "img_content")],
        ("extend_param", Extend),
    ]


class Input(ctypes.Structure):
    _fields_ = [("input_mode", ctypes.c_int), ("prompt", ctypes.c_char_p), ("rest", ctypes.c_size_t * 2)]


class Infer(ctypes.Structure):
    _fields_ = [
        ("mode", ctypes.c_int),
        ("lora_params", ctypes.c_void_p),
        ("prompt_cache_params", ctypes.c_void_p),
    ]


class Result(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p), ("size", ctypes.c_int), ("hidden", ctypes.c_byte * 16)]


heard, state, rest = [], -1, b""


def told(result, userdata, now):
    global state, rest
    state = now
    if now == 0:
        try:
            heard.append((rest + result.contents.text).decode())
            rest = b""
        except UnicodeDecodeError:
            rest += result.contents.text


CALLBACK = ctypes.CFUNCTYPE(None, ctypes.POINTER(Result), ctypes.c_void_p, ctypes.c_int)
callback = CALLBACK(told)


def shown(handle, question):
    """What a page shows, each time that it grows."""
    heard.clear()
    given, infer, text = Input(0, question.encode()), Infer(), ""
    lib.rkllm_run.argtypes = [ctypes.c_void_p, ctypes.POINTER(Input), ctypes.POINTER(Infer), ctypes.c_void_p]
    thread = threading.Thread(target=lib.rkllm_run, args=(handle, given, infer, None))
    thread.start()
    while thread.is_alive() or heard:
        while heard:
            text += heard.pop(0)
            yield text
        thread.join(timeout=0.005)


def main():
    param = Param(
        model_path=sys.argv[1].encode(),
        max_context_len=256,
        max_new_tokens=24,
        top_k=1,
        top_p=0.9,
        temperature=0.8,
    )
    param.repeat_penalty, param.skip_special_token = 1.0, True
    param.img_start = param.img_end = param.img_content = b""
    handle = ctypes.c_void_p()
    if lib.rkllm_init(ctypes.byref(handle), ctypes.byref(param), callback) != 0:
        sys.exit("rkllm init failed")
    for question in sys.argv[2:]:
        grown = list(shown(handle, question))
        print(grown[-1], len(grown), state)
    lib.rkllm_destroy(handle)


main()
