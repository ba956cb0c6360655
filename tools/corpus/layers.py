"""Building blocks shared by the corpus networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "leaky": lambda: nn.LeakyReLU(0.1),
    "prelu": lambda: nn.PReLU(1),
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
    "hardswish": nn.Hardswish,
    "hardsigmoid": nn.Hardsigmoid,
    "softplus": nn.Softplus,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "mish": nn.Mish,
}


class Fn(nn.Module):
    """A module around a function, with named submodules that the function receives first."""

    def __init__(self, function: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleDict(modules)

    def forward(self, *inputs: Tensor) -> Any:
        """Call the function with the submodules (if there are any) and the inputs."""
        return self.function(self.parts, *inputs) if len(self.parts) else self.function(*inputs)


class Branches(nn.Module):
    """Several branches on the output of one stem; every branch is a graph output."""

    def __init__(self, stem: nn.Module, *branches: nn.Module) -> None:
        super().__init__()
        self.stem = stem
        self.branches = nn.ModuleList(branches)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Run the stem once and every branch on its result."""
        x = self.stem(*inputs)
        outputs: list[Tensor] = []
        for branch in self.branches:
            y = branch(x)
            outputs += [y] if isinstance(y, Tensor) else list(y)
        return tuple(outputs)


def activation(name: str, channels: int) -> nn.Module:
    """An activation by name; PReLU gets one random slope per channel."""
    if name == "prelu":
        act = nn.PReLU(channels)
        nn.init.uniform_(act.weight, -0.2, 0.6)
        return act
    return ACTIVATIONS[name]()


def conv(
    cin: int, cout: int, k: Any = 3, s: Any = 1, act: str | None = "relu", **options: Any
) -> nn.Sequential:
    """Convolution, batch norm and activation; pads to 'same' unless padding is given."""
    if "padding" not in options:
        d = options.get("dilation", 1)
        options["padding"] = d * (k - 1) // 2
    layers: list[nn.Module] = [nn.Conv2d(cin, cout, k, s, bias=False, **options), nn.BatchNorm2d(cout)]
    if act:
        layers.append(activation(act, cout))
    return nn.Sequential(*layers)


def depthwise(
    channels: int, k: int = 3, s: int = 1, act: str | None = "relu", **options: Any
) -> nn.Sequential:
    """Depthwise convolution, batch norm and activation."""
    return conv(channels, channels, k, s, act, groups=channels, **options)


def deconv(
    cin: int, cout: int, k: int, s: int, p: int, act: str | None = None, **options: Any
) -> nn.Sequential:
    """Transposed convolution, batch norm and activation."""
    layers = [nn.ConvTranspose2d(cin, cout, k, s, p, bias=False, **options), nn.BatchNorm2d(cout)]
    return nn.Sequential(*layers, *([activation(act, cout)] if act else []))


class SqueezeExcite(nn.Module):
    """Channel attention: global pooling, two 1x1 convolutions, gate."""

    def __init__(self, channels: int, hidden: int, gate: str = "hardsigmoid") -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, hidden, 1)
        self.expand = nn.Conv2d(hidden, channels, 1)
        self.gate = activation(gate, channels)

    def forward(self, x: Tensor) -> Tensor:
        """Scale the channels of x."""
        y = nn.functional.adaptive_avg_pool2d(x, 1)
        y = self.expand(torch.relu(self.reduce(y)))
        return x * self.gate(y)


class Residual(nn.Module):
    """x + body(x), or shortcut(x) + body(x), with an optional activation after the sum."""

    def __init__(self, body: nn.Module, shortcut: nn.Module | None = None, act: str | None = None) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut or nn.Identity()
        self.act = activation(act, 0) if act else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Sum of both paths."""
        return self.act(self.body(x) + self.shortcut(x))
