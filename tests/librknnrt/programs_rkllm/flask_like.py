"""A program in the form of other people's servers: structures of its own, a path to the library, a thread for the run.

``flask_like.py MODEL VERSION QUESTION`` prints the answer.
"""

import ctypes
import sys
import threading

lib = ctypes.CDLL("lib/librkllmrt.so")
NEW = sys.argv[2] >= "1.3"


class Extend(ctypes.Structure):
    _fields_ = [
        ("base_domain_id", ctypes.c_int32),
        ("embed_flash", ctypes.c_int8),
        ("enabled_cpus_num", ctypes.c_int8),
        ("enabled_cpus_mask", ctypes.c_uint32),
        ("n_batch", ctypes.c_uint8),
        ("use_cross_attn", ctypes.c_int8),
        ("reserved", ctypes.c_uint8 * 104),
    ]


class Param(ctypes.Structure):
    _fields_ = [
        ("model_path", ctypes.c_char_p),
        ("max_context_len", ctypes.c_int32),
        ("max_new_tokens", ctypes.c_int32),
        ("top_k", ctypes.c_int32),
        ("n_keep", ctypes.c_int32),
        ("top_p", ctypes.c_float),
        ("temperature", ctypes.c_float),
        ("repeat_penalty", ctypes.c_float),
        ("frequency_penalty", ctypes.c_float),
        ("presence_penalty", ctypes.c_float),
        ("mirostat", ctypes.c_int32),
        ("mirostat_tau", ctypes.c_float),
        ("mirostat_eta", ctypes.c_float),
        ("skip_special_token", ctypes.c_bool),
        *([("ignore_eos_token", ctypes.c_bool)] if NEW else []),
        ("is_async", ctypes.c_bool),
        *([] if NEW else [(name, ctypes.c_char_p) for name in ("img_start", "img_end", "img_content")]),
        ("extend_param", Extend),
    ]


class Prompt(ctypes.Union):
    _fields_ = [("prompt_input", ctypes.c_char_p), ("room", ctypes.c_size_t * (18 if NEW else 6))]


class Input(ctypes.Structure):
    _anonymous_ = ("data",)
    _fields_ = [
        ("role", ctypes.c_char_p),
        ("enable_thinking", ctypes.c_bool),
        ("input_type", ctypes.c_int),
        ("data", Prompt),
    ]


class Infer(ctypes.Structure):
    _fields_ = [
        ("mode", ctypes.c_int),
        ("lora_params", ctypes.c_void_p),
        ("prompt_cache_params", ctypes.c_void_p),
        *([("sampling_params", ctypes.c_void_p)] if NEW else []),
        ("keep_history", ctypes.c_int),
        *([("max_new_tokens", ctypes.c_int32)] if NEW else []),
    ]


class Result(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p), ("token_id", ctypes.c_int), ("more", ctypes.c_byte * 56)]


CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Result), ctypes.c_void_p, ctypes.c_int)
global_text, global_state = [], -1


def callback_impl(result, userdata, state):
    global global_state
    global_state = state
    if state == 0:
        global_text.append(result.contents.text.decode("utf-8"))
    return 0


callback = CALLBACK(callback_impl)


class Callbacks(ctypes.Structure):
    _fields_ = [("result_callback", CALLBACK), ("rest", ctypes.c_void_p * 5)]


def main():
    param = Param(
        model_path=sys.argv[1].encode(),
        max_context_len=4096,
        max_new_tokens=24,
        skip_special_token=True,
        n_keep=-1,
        top_k=1,
        top_p=0.9,
        temperature=0.8,
        repeat_penalty=1.0,
        mirostat_tau=5.0,
        mirostat_eta=0.1,
    )
    param.extend_param.n_batch = 1
    param.extend_param.enabled_cpus_num = 4
    param.extend_param.enabled_cpus_mask = 0xF0
    handle = ctypes.c_void_p()
    told = ctypes.byref(Callbacks(callback)) if NEW else callback
    if lib.rkllm_init(ctypes.byref(handle), ctypes.byref(param), told) != 0:
        sys.exit("rkllm init failed")
    given = Input(role=b"user", enable_thinking=False, input_type=0, prompt_input=sys.argv[3].encode())
    infer = Infer()
    run = threading.Thread(
        target=lib.rkllm_run, args=(handle, ctypes.byref(given), ctypes.byref(infer), None)
    )
    run.start()
    run.join()
    if global_state != 2:
        sys.exit(f"the last state is {global_state}")
    print("".join(global_text))
    lib.rkllm_destroy(handle)


main()
