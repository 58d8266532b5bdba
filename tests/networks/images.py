# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Networks of images: convolutions, transformers, detectors, and the UNet of a diffusion model."""
import dataclasses

import torch
import transformers
from torch import nn

from network import Network, Positional

TINY = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
PIXELS = {0: "batch", 2: "height", 3: "width"}


def of_images(model, outputs, size, full, any_size=True, wrapped=True, multiple=1, **fixed):
    """A network of one input; heights and widths are symbolic if any_size."""
    calls = [{"batch": 2, "height": size, "width": size + 32}, {"batch": 1, "height": size, "width": size}, {"batch": 3, "height": size + 64, "width": size + 32}]
    if not any_size:
        calls = [{"batch": 2}, {"batch": 1}, {"batch": 5}]

    def inputs_of(sizes, generator):
        return (torch.randn((sizes["batch"], 3, sizes.get("height", size), sizes.get("width", size)), generator=generator),)

    model = Positional(model, ["pixel_values"], outputs, **fixed) if wrapped else model
    symbols = {"pixel_values": PIXELS if any_size else {0: "batch"}}
    return Network(model, ["pixel_values"], outputs, symbols, calls[:2] if full else calls, inputs_of, multiples={"height": multiple, "width": multiple})


def resnet_config(full, **more):
    shape = {} if full else {"embedding_size": 16, "hidden_sizes": [32, 48, 64, 96], "depths": [1, 2, 1, 1], "num_labels": 10}
    return transformers.ResNetConfig(**shape, **more)


def resnet(full):
    """With bottlenecks, as ResNet-50."""
    return of_images(transformers.ResNetForImageClassification(resnet_config(full)), ["logits"], 224 if full else 64, full)


def mobilenet_v2(full, padded=False):
    config = transformers.MobileNetV2Config(**({} if full else {"depth_multiplier": 0.35, "num_labels": 10}), tf_padding=padded)
    return of_images(transformers.MobileNetV2ForImageClassification(config), ["logits"], 224 if full else 64, full)


def mobilenet_v2_padded(full):
    """Padded as TensorFlow does, by numbers that depend on the size. Dynamo makes the size of the export static."""
    return dataclasses.replace(mobilenet_v2(full, padded=True), exporters=("old",))


def efficientnet(full):
    shape = {"width_coefficient": 1.0, "depth_coefficient": 1.0, "hidden_dim": 1280, "image_size": 224}  # B0
    if not full:
        shape = {"width_coefficient": 0.35, "depth_coefficient": 0.35, "hidden_dim": 448, "image_size": 64, "num_labels": 10}
    return of_images(transformers.EfficientNetForImageClassification(transformers.EfficientNetConfig(**shape)), ["logits"], 224 if full else 64, full)


def convnext(full):
    shape = {} if full else {"hidden_sizes": [16, 24, 32, 48], "depths": [1, 1, 2, 1], "num_labels": 10}
    return of_images(transformers.ConvNextForImageClassification(transformers.ConvNextConfig(**shape)), ["logits"], 224 if full else 64, full)


def vit(full):
    config = transformers.ViTConfig(**({} if full else {**TINY, "image_size": 32, "patch_size": 8}))
    return of_images(transformers.ViTModel(config), ["last_hidden_state", "pooler_output"], config.image_size, full, any_size=False)


def vit_any_size(full):
    """Positions are interpolated to the size of the image."""
    config = transformers.ViTConfig(**({} if full else {**TINY, "image_size": 32, "patch_size": 8}))
    return of_images(transformers.ViTModel(config), ["last_hidden_state", "pooler_output"], config.image_size, full, multiple=config.patch_size,
                     interpolate_pos_encoding=True)


def swin(full):
    """With windows that are shifted."""
    config = transformers.SwinConfig(**({} if full else {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}))
    return of_images(transformers.SwinModel(config), ["last_hidden_state", "pooler_output"], config.image_size, full, any_size=False)


def detr(full):
    shape = {} if full else {"d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
                             "decoder_ffn_dim": 64, "num_queries": 10, "num_labels": 7}
    backbone = resnet_config(full, out_features=["stage4"])
    config = transformers.DetrConfig(**shape, use_timm_backbone=False, backbone=None, use_pretrained_backbone=False, backbone_config=backbone)
    return of_images(transformers.DetrForObjectDetection(config), ["logits", "pred_boxes"], 224 if full else 64, full)


class Block(nn.Sequential):
    def __init__(self, inner, outer, size=3, stride=1):
        super().__init__(nn.Conv2d(inner, outer, size, stride, size // 2, bias=False), nn.BatchNorm2d(outer), nn.SiLU())


class Split(nn.Module):
    """Half of the channels goes through residual blocks, all parts are concatenated."""

    def __init__(self, width):
        super().__init__()
        self.first, self.last = Block(width, width, 1), Block(width + width // 2, width, 1)
        self.inner = nn.Sequential(Block(width // 2, width // 2), Block(width // 2, width // 2))

    def forward(self, x):
        left, right = self.first(x).chunk(2, 1)
        return self.last(torch.cat((left, right, right + self.inner(right)), 1))


@torch.library.custom_op("heddle_networks::nms", mutates_args=())
def nms(boxes: torch.Tensor, scores: torch.Tensor, limit: int, overlap: float, least: float) -> torch.Tensor:
    """As ONNX's NonMaxSuppression with corners of boxes: rows of image, class and box."""
    found = []
    for image in range(scores.shape[0]):
        for kind in range(scores.shape[1]):
            kept = []
            for index in scores[image, kind].argsort(descending=True, stable=True).tolist():
                if len(kept) == limit or scores[image, kind, index] <= least:
                    break
                box, others = boxes[image, index], boxes[image, kept]
                low, high = torch.maximum(box[:2], others[:, :2]), torch.minimum(box[2:], others[:, 2:])
                shared = (high - low).clamp(min=0).prod(-1)
                areas = (others[:, 2:] - others[:, :2]).prod(-1) + (box[2:] - box[:2]).prod()
                if not bool((shared / (areas - shared) > overlap).any()):
                    kept.append(index)
            found += [[image, kind, index] for index in kept]
    return torch.tensor(found, dtype=torch.int64).reshape(-1, 3)


@nms.register_fake
def _(boxes, scores, limit, overlap, least):
    return boxes.new_empty((torch.library.get_ctx().new_dynamic_size(), 3), dtype=torch.int64)


def nms_for_dynamo():
    from onnxscript import opset18 as op

    def translated(boxes, scores, limit: int, overlap: float, least: float):
        return op.NonMaxSuppression(boxes, scores, op.Constant(value_ints=[limit]), op.Constant(value_floats=[overlap]), op.Constant(value_floats=[least]))

    return {torch.ops.heddle_networks.nms.default: translated}


def nms_for_old(graph, boxes, scores, limit, overlap, least):
    from torch.onnx.symbolic_helper import _get_const
    limit, overlap, least = (_get_const(value, kind, "") for value, kind in ((limit, "i"), (overlap, "f"), (least, "f")))
    return graph.op("NonMaxSuppression", boxes, scores, graph.op("Constant", value_t=torch.tensor([limit])), graph.op("Constant", value_t=torch.tensor([overlap])),
                    graph.op("Constant", value_t=torch.tensor([least])))


class Detector(nn.Module):
    """Of YOLO's shape: a backbone, features of three scales that flow up and down, boxes from distances to the points of a grid, and those that are kept."""

    def __init__(self, width, kinds=5):
        super().__init__()
        self.kinds = kinds
        self.stem = nn.Sequential(Block(3, width, 3, 2), Block(width, 2 * width, 3, 2), Split(2 * width))
        self.deep = nn.ModuleList([nn.Sequential(Block(2 * width, 2 * width, 3, 2), Split(2 * width)) for _ in range(3)])
        self.pool, self.pooled = nn.MaxPool2d(5, 1, 2), Block(8 * width, 2 * width, 1)
        self.up = nn.ModuleList([Block(4 * width, 2 * width, 1) for _ in range(2)])
        self.down = nn.ModuleList([Block(2 * width, 2 * width, 3, 2) for _ in range(2)])
        self.merge = nn.ModuleList([Block(4 * width, 2 * width, 1) for _ in range(2)])
        self.heads = nn.ModuleList([nn.Conv2d(2 * width, 4 + kinds, 1) for _ in range(3)])
        for one in self.modules():
            if isinstance(one, nn.Conv2d):
                nn.init.kaiming_normal_(one.weight)  # or scores would be so close that rounding decides their order

    def features(self, x):
        levels = [self.stem(x)]
        for deeper in self.deep:
            levels.append(deeper(levels[-1]))
        last = levels.pop()
        pools = [last]
        for _ in range(3):
            pools.append(self.pool(pools[-1]))
        levels = levels[1:] + [self.pooled(torch.cat(pools, 1))]
        for index in (1, 0):
            higher = nn.functional.interpolate(levels[index + 1], scale_factor=2.0, mode="nearest")
            levels[index] = self.up[index](torch.cat((levels[index], higher), 1))
        for index in (0, 1):
            levels[index + 1] = self.merge[index](torch.cat((levels[index + 1], self.down[index](levels[index])), 1))
        return levels

    def forward(self, pixel_values):
        boxes, scores = [], []
        for level, (x, head) in enumerate(zip(self.features(pixel_values), self.heads, strict=True)):
            stride, found = 8 << level, head(x).flatten(2).transpose(1, 2)
            rows, columns = torch.arange(x.shape[2]) + 0.5, torch.arange(x.shape[3]) + 0.5
            points = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1).reshape(-1, 2)
            near, far = ((found[..., :4] / 4).sigmoid() * 4).chunk(2, -1)
            boxes.append(torch.cat((points - near, points + far), -1) * stride)
            scores.append((found[..., 4:] / 8).sigmoid())
        boxes, scores = torch.cat(boxes, 1), torch.cat(scores, 1).transpose(1, 2)
        kept = torch.ops.heddle_networks.nms(boxes, scores, 20, 0.5, 0.3)
        image, kind, box = kept.unbind(1)
        return boxes, scores, kept, boxes[image, box], scores[image, kind, box]


def yolo(full):
    network = of_images(Detector(32 if full else 8), ["boxes", "scores", "kept", "kept_boxes", "kept_scores"], 224 if full else 64, full, wrapped=False, multiple=32)
    network.translations = nms_for_dynamo()
    torch.onnx.register_custom_op_symbolic("heddle_networks::nms", nms_for_old, 11)
    return network


def unet(full):
    """Of Stable Diffusion's shape: blocks with time, attention to a text, and connections across."""
    import diffusers
    shape = {"sample_size": 16, "block_out_channels": (16, 32), "layers_per_block": 1, "cross_attention_dim": 24, "attention_head_dim": 4, "norm_num_groups": 8,
             "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")}
    if full:  # a quarter of the width of 1.5's
        shape = {"sample_size": 32, "block_out_channels": (80, 160, 320, 320), "cross_attention_dim": 768, "attention_head_dim": 8, "norm_num_groups": 16}
    model = diffusers.UNet2DConditionModel(**shape).eval()
    model.set_attn_processor(diffusers.models.attention_processor.AttnProcessor2_0())
    inputs = ["sample", "timestep", "encoder_hidden_states"]
    size, width = model.config.sample_size, model.config.cross_attention_dim

    def inputs_of(sizes, generator):
        batch = sizes["batch"]
        return (torch.randn((batch, 4, sizes["height"], sizes["width"]), generator=generator), torch.tensor(37 * batch),
                torch.randn((batch, sizes["length"], width), generator=generator))

    calls = [{"batch": 2, "height": size, "width": size + 8, "length": 7}, {"batch": 1, "height": size, "width": size, "length": 5},
             {"batch": 3, "height": size + 8, "width": size, "length": 12}]
    return Network(Positional(model, inputs, ["sample"]), inputs, ["denoised"], {"sample": PIXELS, "timestep": {}, "encoder_hidden_states": {0: "batch", 1: "length"}},
                   calls, inputs_of, multiples={"height": 8, "width": 8})
