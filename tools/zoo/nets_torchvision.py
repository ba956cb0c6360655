"""Networks of torchvision."""

from __future__ import annotations

from typing import Any

import torch
import torchvision.models as tv
from network import image, network
from torch import nn


class First(nn.Module):
    """The main output of a segmentation network."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits at the size of the image."""
        return self.inner(x)["out"]


@network("tv_mobilenet_v2", image(96))
def _mobilenet_v2() -> Any:
    return tv.mobilenet_v2(width_mult=0.5, num_classes=50)


@network("tv_resnet18", image(96), dynamo=True)
def _resnet18() -> Any:
    return tv.ResNet(tv.resnet.BasicBlock, [2, 2, 2, 2], num_classes=50)


@network("tv_resnext", image(96), opset=11)
def _resnext() -> Any:
    return tv.ResNet(tv.resnet.Bottleneck, [1, 1, 1, 1], groups=8, width_per_group=4, num_classes=50)


@network("tv_mobilenet_v3_small", image(96), opset=14)
def _mobilenet_v3() -> Any:
    return tv.mobilenet_v3_small(num_classes=50, width_mult=0.75)


@network("tv_shufflenet_v2", image(96), opset=13)
def _shufflenet() -> Any:
    return tv.ShuffleNetV2([4, 8, 4], [24, 48, 96, 192, 512], num_classes=50)


@network("tv_squeezenet", image(96), opset=11)
def _squeezenet() -> Any:
    return tv.squeezenet1_1(num_classes=50)


@network("tv_densenet", image(96), opset=12)
def _densenet() -> Any:
    return tv.DenseNet(16, (3, 3, 3, 3), 32, num_classes=50)


@network("tv_googlenet", image(96), opset=13)
def _googlenet() -> Any:
    return tv.googlenet(aux_logits=False, num_classes=50, init_weights=False)


@network("tv_mnasnet", image(96), opset=17)
def _mnasnet() -> Any:
    return tv.mnasnet0_5(num_classes=50)


@network("tv_regnet_y", image(96), dynamo=True)
def _regnet() -> Any:
    return tv.regnet_y_400mf(num_classes=50)


@network("tv_efficientnet_b0", image(96), opset=16)
def _efficientnet() -> Any:
    return tv.efficientnet_b0(num_classes=50)


@network("tv_vgg11_bn", image(64), opset=11)
def _vgg() -> Any:
    net = tv.VGG(tv.vgg.make_layers([16, "M", 32, "M", 64, 64, "M", 96, 96, "M"], True), num_classes=20)
    net.avgpool = nn.Identity()
    net.classifier = nn.Sequential(nn.Linear(96 * 16, 128), nn.ReLU(), nn.Dropout(), nn.Linear(128, 20))
    return net


def _traceable(net: nn.Module) -> nn.Module:
    """The older exporter does not know the fused path of attention that evaluation takes; the head starts as zeros."""
    torch.backends.mha.set_fastpath_enabled(False)
    nn.init.normal_(net.heads.head.weight, 0, 0.1)  # type: ignore[union-attr]
    return net


@network("tv_vit", image(64), opset=17)
def _vit() -> Any:
    return _traceable(tv.VisionTransformer(64, 16, 3, 4, 96, 192, num_classes=50))


@network("tv_vit_dynamo", image(64), dynamo=True)
def _vit_dynamo() -> Any:
    return _traceable(tv.VisionTransformer(64, 16, 3, 4, 96, 192, num_classes=50))


@network("tv_swin", image(64), opset=16)
def _swin() -> Any:
    return tv.SwinTransformer([4, 4], 32, [2, 2], [2, 4], [4, 4], num_classes=50)


@network("tv_swin_v2", image(64), opset=17)
def _swin2() -> Any:
    return tv.SwinTransformer(
        [4, 4], 32, [2, 2], [2, 4], [4, 4], num_classes=50, block=tv.swin_transformer.SwinTransformerBlockV2,
        downsample_layer=tv.swin_transformer.PatchMergingV2,
    )  # fmt: skip


@network("tv_convnext", image(64), opset=15)
def _convnext() -> Any:
    block = tv.convnext.CNBlockConfig
    settings = [block(24, 48, 2), block(48, 96, 2), block(96, None, 2)]
    return tv.ConvNeXt(settings, layer_scale=0.3, num_classes=50)


@network("tv_maxvit", image(64), opset=17)
def _maxvit() -> Any:
    return tv.MaxVit((64, 64), 16, 4, [16, 32], [1, 1], 8, 0.0, num_classes=50)


@network("tv_lraspp", image(96), opset=12)
def _lraspp() -> Any:
    return First(
        tv.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5)
    )


@network("tv_deeplab_v3", image(96), opset=13)
def _deeplab() -> Any:
    return First(
        tv.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5)
    )
