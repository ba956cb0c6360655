"""Every hook is short, documented and takes ``register``."""

from __future__ import annotations

import inspect

from rknnlite import hookspecs

HOOKS = {name: thing for name, thing in vars(hookspecs).items() if name.startswith("rknnlite_")}


def test_the_hooks_there_are() -> None:
    assert set(HOOKS) == {
        "rknnlite_register_backends",
        "rknnlite_register_commands",
        "rknnlite_register_custom_ops",
        "rknnlite_register_inspectors",
        "rknnlite_register_lowerings",
        "rknnlite_register_names",
        "rknnlite_register_op_hosts",
    }


def test_hooks_take_register_and_say_what_to_do() -> None:
    for name, hook in HOOKS.items():
        assert list(inspect.signature(hook).parameters) == ["register"]
        assert hook.__doc__ and "register(" in hook.__doc__, name
        assert hasattr(hook, "rknnlite_spec"), f"{name} is no hook specification"
