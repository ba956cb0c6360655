"""Networks whose result is a picture or a map: segmentation, super resolution, denoising, flow, key points."""

from __future__ import annotations

from typing import Any

import segmentation_models_pytorch as smp
import torch
import torch.nn.functional as F
from network import image, network
from torch import nn

_UNIT: dict[str, Any] = {"mean": (0.0,), "std": (255.0,)}


def _conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2 * dilation, dilation)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU())


for _name, _kind, _opset, _how in (
    ("smp_unet", "Unet", 12, {"decoder_channels": (64, 48, 32, 16, 8)}),
    ("smp_fpn", "FPN", 13, {"decoder_pyramid_channels": 32, "decoder_segmentation_channels": 32}),
    ("smp_deeplab_v3plus", "DeepLabV3Plus", 17, {"decoder_channels": 32}),
    ("smp_manet", "MAnet", 13, {"decoder_channels": (64, 48, 32, 16, 8)}),
    ("smp_linknet", "Linknet", 11, {}),
):
    network(_name, image(96), opset=_opset)(
        lambda kind=_kind, how=_how: getattr(smp, kind)(
            "timm-mobilenetv3_small_minimal_100", encoder_weights=None, classes=3, **how
        )
    )


class Rsu(nn.Module):
    """U2-Net's block: a small U inside."""

    def __init__(self, inputs: int, inner: int, outputs: int, depth: int) -> None:
        super().__init__()
        self.enter = _conv(inputs, outputs)
        self.down = nn.ModuleList(_conv(outputs if n == 0 else inner, inner) for n in range(depth))
        self.bottom = _conv(inner, inner, dilation=2)
        self.up = nn.ModuleList(_conv(2 * inner, outputs if n == 0 else inner) for n in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Residual."""
        x = y = self.enter(x)
        kept = []
        for place, conv in enumerate(self.down):
            y = conv(y if place == 0 else F.max_pool2d(y, 2, 2, ceil_mode=True))
            kept.append(y)
        y = self.bottom(y)
        for conv, side in zip(reversed(self.up), reversed(kept), strict=True):
            y = F.interpolate(y, size=side.shape[2:], mode="bilinear", align_corners=False)
            y = conv(torch.cat((y, side), 1))
        return x + y


class U2Net(nn.Module):
    """Two levels of blocks, side outputs of one channel, joined."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = Rsu(3, 8, 24, 3), Rsu(24, 8, 24, 2), Rsu(48, 8, 24, 3)
        self.sides = nn.ModuleList(nn.Conv2d(24, 1, 3, 1, 1) for _ in range(2))
        self.join = nn.Conv2d(2, 1, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The mask and the side masks."""
        one = self.one(x)
        two = self.two(F.max_pool2d(one, 2, 2, ceil_mode=True))
        fine = self.three(torch.cat((one, F.interpolate(two, size=one.shape[2:], mode="bilinear")), 1))
        maps = [
            F.interpolate(side(f), size=x.shape[2:], mode="bilinear")
            for side, f in zip(self.sides, (fine, two), strict=True)
        ]
        return tuple(m.sigmoid() for m in (self.join(torch.cat(maps, 1)), *maps))


@network("u2netp", image(96), opset=11)
def _u2net() -> Any:
    return U2Net()


class BiSeNet(nn.Module):
    """Version 2: detail and semantic branch, aggregation with gates from each other."""

    def __init__(self) -> None:
        super().__init__()
        self.detail = nn.Sequential(_conv(3, 16, 3, 2), _conv(16, 24, 3, 2), _conv(24, 32, 3, 2))
        self.stem, self.left = _conv(3, 8, 3, 2), nn.Sequential(_conv(8, 4, 1), _conv(4, 8, 3, 2))
        self.merge = _conv(16, 16)
        self.deep = nn.Sequential(_conv(16, 24, 3, 2), _conv(24, 32, 3, 2), _conv(32, 32, 3, 2))
        self.context = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.BatchNorm2d(32), nn.Conv2d(32, 32, 1), nn.ReLU()
        )
        self.small = nn.Sequential(nn.Conv2d(32, 32, 3, 2, 1), nn.AvgPool2d(3, 2, 1))
        self.keep, self.gate, self.inner = (nn.Conv2d(32, 32, 3, 1, 1) for _ in range(3))
        self.last, self.out = _conv(32, 32), nn.Conv2d(32, 5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores at the size of the image, and their best."""
        detail, stem = self.detail(x), self.stem(x)
        deep = self.deep(self.merge(torch.cat((self.left(stem), F.max_pool2d(stem, 3, 2, 1)), 1)))
        deep = deep + self.context(deep)
        fine = self.keep(detail) * F.interpolate(self.gate(deep), scale_factor=4, mode="bilinear").sigmoid()
        coarse = self.small(detail) * self.inner(deep).sigmoid()
        y = self.last(fine + F.interpolate(coarse, scale_factor=4, mode="bilinear"))
        return F.interpolate(self.out(y), scale_factor=8, mode="bilinear", align_corners=False)


@network("bisenet_v2", image(96), opset=12)
def _bisenet() -> Any:
    return BiSeNet()


@network("espcn_x2", image(64), opset=11, **_UNIT)
def _espcn() -> Any:
    body = [nn.Conv2d(3, 32, 5, 1, 2), nn.Tanh(), nn.Conv2d(32, 16, 3, 1, 1), nn.Tanh()]
    return nn.Sequential(*body, nn.Conv2d(16, 12, 3, 1, 1), nn.PixelShuffle(2))


@network("fsrcnn_x3_luma", image(48, channels=1), opset=12, **_UNIT)
def _fsrcnn() -> Any:
    body: list[nn.Module] = [nn.Conv2d(1, 24, 5, 1, 2), nn.PReLU(24), nn.Conv2d(24, 12, 1), nn.PReLU(12)]
    for _ in range(2):
        body += [nn.Conv2d(12, 12, 3, 1, 1), nn.PReLU(12)]
    return nn.Sequential(*body, nn.Conv2d(12, 24, 1), nn.PReLU(24), nn.ConvTranspose2d(24, 1, 9, 3, 4, 2))


@network("realesrgan_compact", image(48), opset=14, **_UNIT)
def _compact() -> Any:
    class Compact(nn.Module):
        """Plain convolutions with PReLU, pixel shuffle, plus the image enlarged."""

        def __init__(self) -> None:
            super().__init__()
            body: list[nn.Module] = [nn.Conv2d(3, 24, 3, 1, 1), nn.PReLU(24)]
            for _ in range(3):
                body += [nn.Conv2d(24, 24, 3, 1, 1), nn.PReLU(24)]
            self.body = nn.Sequential(*body, nn.Conv2d(24, 48, 3, 1, 1), nn.PixelShuffle(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x) + F.interpolate(x, scale_factor=4, mode="nearest")

    return Compact()


@network("edsr_dynamo", image(48), dynamo=True, **_UNIT)
def _edsr() -> Any:
    class Res(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, 1, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 0.1 * self.body(x)

    tail = [nn.Conv2d(16, 64, 3, 1, 1), nn.PixelShuffle(2), nn.Conv2d(16, 3, 3, 1, 1)]
    return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1), Res(), Res(), *tail)


@network("dncnn", image(64, channels=1), opset=12, **_UNIT)
def _dncnn() -> Any:
    class DnCnn(nn.Module):
        """The noise is what is learned."""

        def __init__(self) -> None:
            super().__init__()
            middle = [_conv(24, 24) for _ in range(4)]
            self.body = nn.Sequential(
                nn.Conv2d(1, 24, 3, 1, 1), nn.ReLU(), *middle, nn.Conv2d(24, 1, 3, 1, 1)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x - self.body(x)

    return DnCnn()


class Naf(nn.Module):
    """NAFNet's block: layer norm over channels, gates instead of activations."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.enter, self.depth = (
            nn.Conv2d(size, 2 * size, 1),
            nn.Conv2d(2 * size, 2 * size, 3, 1, 1, groups=2 * size),
        )
        self.pool, self.leave = (
            nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(size, size, 1)),
            nn.Conv2d(size, size, 1),
        )
        self.wide, self.narrow = nn.Conv2d(size, 2 * size, 1), nn.Conv2d(size, size, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Residual, twice."""
        a, b = self.depth(self.enter(self.norm1(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))).chunk(2, 1)
        y = a * b
        x = x + self.leave(y * self.pool(y))
        a, b = self.wide(self.norm2(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)).chunk(2, 1)
        return x + self.narrow(a * b)


@network("nafnet", image(64), opset=17, **_UNIT)
def _nafnet() -> Any:
    down, up = nn.Conv2d(12, 24, 2, 2), nn.Sequential(nn.Conv2d(24, 48, 1, bias=False), nn.PixelShuffle(2))
    return nn.Sequential(nn.Conv2d(3, 12, 3, 1, 1), Naf(12), down, Naf(24), up, nn.Conv2d(12, 3, 3, 1, 1))


@network("zero_dce", image(64), opset=13, **_UNIT)
def _zero_dce() -> Any:
    class ZeroDce(nn.Module):
        """Curves, applied again and again."""

        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = (
                nn.Conv2d(3, 16, 3, 1, 1),
                nn.Conv2d(16, 16, 3, 1, 1),
                nn.Conv2d(32, 12, 3, 1, 1),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a = F.relu(self.a(x))
            for curve in self.c(torch.cat((a, F.relu(self.b(a))), 1)).tanh().split(3, 1):
                x = x + curve * (x**2 - x)
            return x

    return ZeroDce()


@network("style_transfer", image(64), opset=13, mean=(0.0,), std=(1.0,))
def _style() -> Any:
    def part(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
        conv = nn.Conv2d(inputs, outputs, kernel, stride)
        return [nn.ReflectionPad2d(kernel // 2), conv, nn.InstanceNorm2d(outputs, affine=True), nn.ReLU()]

    up = nn.Upsample(scale_factor=2, mode="nearest")
    body = [*part(3, 16, 9), *part(16, 24, 3, 2), *part(24, 24, 3), up, *part(24, 16, 3)]
    return nn.Sequential(*body, nn.ReflectionPad2d(4), nn.Conv2d(16, 3, 9))


@network("frame_interpolation", image(64), image(64), opset=17, **_UNIT)
def _flow() -> Any:
    class Flow(nn.Module):
        """Flow from two frames, both warped and blended by a mask."""

        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(_conv(6, 16, 3, 2), _conv(16, 24, 3, 2), _conv(24, 24))
            self.up = nn.ConvTranspose2d(24, 5, 4, 4)
            y, x = torch.meshgrid(torch.linspace(-1, 1, 64), torch.linspace(-1, 1, 64), indexing="ij")
            self.grid = nn.Parameter(torch.stack((x, y), -1)[None], requires_grad=False)

        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            y = self.up(self.body(torch.cat((a, b), 1)))
            mask, moved = y[:, 4:].sigmoid(), []
            for frame, flow in ((a, y[:, :2]), (b, y[:, 2:4])):
                grid = self.grid + 0.05 * flow.tanh().permute(0, 2, 3, 1)
                moved.append(
                    F.grid_sample(frame, grid, mode="bilinear", padding_mode="border", align_corners=True)
                )
            return moved[0] * mask + moved[1] * (1 - mask)

    return Flow()


@network("hrnet_pose", image(96, 64), opset=11)
def _hrnet() -> Any:
    class HrNet(nn.Module):
        """Two resolutions that exchange, heat maps."""

        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(_conv(3, 16, 3, 2), _conv(16, 24, 3, 2))
            self.high, self.low = (
                nn.Sequential(_conv(24, 24), _conv(24, 24)),
                nn.Sequential(_conv(24, 40, 3, 2), _conv(40, 40)),
            )
            self.raise_, self.lower = nn.Conv2d(40, 24, 1), nn.Conv2d(24, 40, 3, 2, 1)
            self.last, self.out = _conv(24, 24), nn.Conv2d(24, 17, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            high, low = self.high(x), self.low(x)
            merged = F.relu(high + F.interpolate(self.raise_(low), scale_factor=2.0, mode="nearest"))
            low = F.relu(low + self.lower(high))
            return self.out(
                self.last(merged + F.interpolate(self.raise_(low), scale_factor=2.0, mode="nearest"))
            )

    return HrNet()


@network("simple_baseline_pose", image(96, 64), opset=12)
def _baseline() -> Any:
    body: list[nn.Module] = [
        _conv(3, 16, 3, 2),
        _conv(16, 24, 3, 2),
        _conv(24, 32, 3, 2),
        _conv(32, 48, 3, 2),
    ]
    for inputs in (48, 32):
        body += [nn.ConvTranspose2d(inputs, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
    return nn.Sequential(*body, nn.Conv2d(32, 1, 1))


@network("rtmpose_simcc", image(96, 64), opset=11)
def _rtmpose() -> Any:
    class Gated(nn.Module):
        """Gated attention unit with scaled norm."""

        def __init__(self, size: int) -> None:
            super().__init__()
            self.g, self.uv = nn.Parameter(torch.ones(1)), nn.Linear(size, 2 * size + 32, bias=False)
            self.gamma, self.beta = nn.Parameter(torch.rand(2, 32)), nn.Parameter(torch.zeros(2, 32))
            self.out, self.scale = nn.Linear(size, size, bias=False), nn.Parameter(torch.ones(size))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            norm = torch.linalg.norm(x, dim=-1, keepdim=True) * x.shape[-1] ** -0.5
            u, v, base = F.silu(self.uv(x / norm.clamp(min=1e-5) * self.g)).split(
                (x.shape[-1], x.shape[-1], 32), -1
            )
            q, k = (base.unsqueeze(2) * self.gamma + self.beta).unbind(2)
            kernel = torch.square(F.relu(q @ k.transpose(1, 2) / 32**0.5))
            return x * self.scale + self.out(u * (kernel @ v))

    class RtmPose(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                _conv(3, 16, 3, 2), _conv(16, 24, 3, 2), _conv(24, 32, 3, 2), _conv(32, 32, 3, 2)
            )
            self.final, self.mlp, self.gau = (
                nn.Conv2d(32, 17, 7, padding=3),
                nn.Linear(24, 48, bias=False),
                Gated(48),
            )
            self.x, self.y = nn.Linear(48, 128, bias=False), nn.Linear(48, 192, bias=False)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = self.gau(self.mlp(self.final(self.body(x)).flatten(2)))
            return self.x(y), self.y(y)

    return RtmPose()
