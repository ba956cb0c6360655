#!/usr/bin/env python3
"""Scenes to train and test on: things cut out of scikit-image's photographs, put on grounds of other photographs.

    python scenes.py scene.jpg             # the example picture
    python scenes.py scene.jpg SEED        # one like those of the training
    python scenes.py scene.avi             # five seconds of the example picture, on the move
    python scenes.py --dataset FOLDER      # 200 that it was not trained on, for rknnlite eval
    python scenes.py --calibration FOLDER  # 60 others for convert.py

Needs scikit-image and opencv-python-headless.
"""

from __future__ import annotations

import functools
import json
import signal
import sys
from pathlib import Path

import cv2
import numpy as np
from skimage import data

LABELS = (Path(__file__).resolve().parent / "labels.txt").read_text().split()
SIZE, GREY = 320, 114
HELD_OUT, CALIBRATION = 10_000_000, 20_000_000
"""Seeds of scenes that are in no training."""
RANGE = {"coin": (0.09, 0.4), "rocket": (0.3, 0.9)}
"""Length as a share of the picture's shorter side, where it is not 0.13 to 0.85."""
BAND = 9
"""Pixels to either side of an outline within which GrabCut looks for the edge."""

OUTLINES = {
    "astronaut": "160,30 200,12 250,15 290,40 302,80 292,115 268,140 258,170 295,200 305,235 297,265 330,285 350,325 "
    "362,350 385,343 430,350 470,380 495,420 508,465 508,512 20,512 20,400 50,310 95,240 115,215 118,195 140,160 "
    "180,150 185,140 165,110 152,75",
    "chelsea": "40,40 85,12 140,0 330,0 385,0 397,10 365,75 358,110 363,125 357,155 340,180 325,210 312,240 300,262 "
    "280,280 245,292 190,280 150,262 100,225 60,180 35,130 30,80",
    "coffee": "80,215 88,170 110,130 143,90 175,75 178,65 210,35 250,20 290,16 330,20 370,40 395,70 420,68 425,75 412,100 "
    "440,130 470,175 480,225 475,270 445,325 400,365 340,385 280,390 210,380 150,345 105,300 85,260",
    "camera": "160,125 155,95 170,72 210,62 245,70 262,92 270,108 275,140 305,140 330,140 345,165 335,185 325,200 330,215 "
    "300,225 270,280 225,300 200,330 170,380 155,430 150,512 95,512 95,440 60,420 10,400 5,280 30,210 45,170 80,135 120,120",
    "rocket": "311,165 312,145 320,127 323,126 327,130 333,145 334,175 330,182 330,405 312,405 313,180",
    "shuttle": "396,30 400,10 406,0 425,0 433,15 438,40 441,42 446,42 450,52 454,60 455,90 455,200 455,232 454,255 458,265 "
    "440,272 424,272 412,268 400,270 392,262 372,272 368,268 374,250 370,232 356,230 354,222 356,212 366,197 377,183 "
    "377,120 383,105 383,60 387,42 391,45 396,60",
}
"""Corners of what is cut out, x,y in pixels of the photograph."""


def photograph(name: str) -> np.ndarray:
    """RGB, uint8 [h, w, 3]."""
    picture = getattr(data, name)()
    return np.ascontiguousarray(np.stack([picture] * 3, axis=2) if picture.ndim == 2 else picture[..., :3])


def cut(name: str, outline: str, band: int = BAND) -> np.ndarray:
    """What is inside the outline, uint8 [h, w, 4] with its opacity; GrabCut finds the edge near the outline."""
    picture = photograph(name)
    points = np.array([pair.split(",") for pair in outline.split()], np.int32)
    inside = cv2.fillPoly(np.zeros(picture.shape[:2], np.uint8), [points], 1)
    if band:
        kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * band + 1, 2 * band + 1))
        sure, near = cv2.erode(inside, kernel), cv2.dilate(inside, kernel)
        marks = np.where(sure == 1, cv2.GC_FGD, np.where(near == 0, cv2.GC_BGD, cv2.GC_PR_FGD)).astype(
            np.uint8
        )
        cv2.setRNGSeed(1)
        cv2.grabCut(picture, marks, None, np.zeros((1, 65)), np.zeros((1, 65)), 5, cv2.GC_INIT_WITH_MASK)
        inside = cv2.medianBlur(np.isin(marks, (cv2.GC_FGD, cv2.GC_PR_FGD)).astype(np.uint8), 5)
        _, parts, stats, _ = cv2.connectedComponentsWithStats(inside)
        inside = (parts == 1 + stats[1:, cv2.CC_STAT_AREA].argmax()).astype(np.uint8)
    opacity = cv2.GaussianBlur(cv2.erode(inside, np.ones((3, 3), np.uint8)) * 255, (3, 3), 0)
    x, y, w, h = cv2.boundingRect(opacity)
    return np.dstack([picture, opacity])[y : y + h, x : x + w]


def coins() -> list[np.ndarray]:
    """Every coin of the photograph, [h, w, 4]."""
    picture = photograph("coins")
    smooth = cv2.GaussianBlur(picture[..., 0], (5, 5), 0)
    edges = cv2.morphologyEx((smooth > 107).astype(np.uint8), cv2.MORPH_CLOSE, np.ones((7, 7), np.uint8))
    found = []
    for contour in cv2.findContours(edges, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)[0]:
        _, radius = cv2.minEnclosingCircle(contour)
        if 11 < radius < 32 and cv2.contourArea(contour) > 0.85 * np.pi * radius**2:
            opacity = cv2.fillPoly(np.zeros(picture.shape[:2], np.uint8), [cv2.convexHull(contour)], 255)
            x, y, w, h = cv2.boundingRect(opacity)
            found.append(np.dstack([picture, cv2.GaussianBlur(opacity, (3, 3), 0)])[y : y + h, x : x + w])
    return found


@functools.cache
def things() -> list[list[np.ndarray]]:
    """Cut-outs per label."""
    return [
        [cut("astronaut", OUTLINES["astronaut"])],
        [cut("chelsea", OUTLINES["chelsea"], band=4)],
        coins(),
        [cut("coffee", OUTLINES["coffee"])],
        [cut("camera", OUTLINES["camera"])],
        [cut("rocket", OUTLINES["rocket"], band=0)],
        [cut("astronaut", OUTLINES["shuttle"], band=2)],
    ]


@functools.cache
def grounds() -> list[np.ndarray]:
    """Photographs of surfaces: brick, grass, gravel, the Moon, the sky, and a wooden table."""
    surfaces = [photograph(name) for name in ("brick", "grass", "gravel", "moon", "hubble_deep_field")]
    return [
        *surfaces,
        photograph("coffee")[:, 480:],
        photograph("camera")[330:, 340:],
        photograph("chelsea")[:, 400:],
    ]


def warp(thing: np.ndarray, height: float, turn: float, flip: bool) -> np.ndarray:
    """The cut-out of that height in pixels, turned by some degrees."""
    source = thing[:, ::-1] if flip else thing
    h, w = source.shape[:2]
    scale = height / h
    if scale < 0.6:  # no aliasing
        source = cv2.resize(source, None, fx=2 * scale, fy=2 * scale, interpolation=cv2.INTER_AREA)
        h, w, scale = *source.shape[:2], height / source.shape[0]
    matrix = cv2.getRotationMatrix2D((w / 2, h / 2), turn, scale)
    cos, sin = abs(matrix[0, 0]), abs(matrix[0, 1])
    size = int(np.ceil(w * cos + h * sin)) + 2, int(np.ceil(w * sin + h * cos)) + 2
    matrix[:, 2] += np.array(size) / 2 - (w / 2, h / 2)
    return cv2.warpAffine(np.ascontiguousarray(source), matrix, size, flags=cv2.INTER_LINEAR)


def place(picture: np.ndarray, thing: np.ndarray, x: int, y: int, shadow: float) -> np.ndarray | None:
    """Put a warped cut-out on a float32 picture, upper left corner at x, y; its box, or None where too little shows."""
    h, w = thing.shape[:2]
    reach = max(2, h // 25) if shadow else 0
    thing = cv2.copyMakeBorder(thing, 0, 4 * reach, 0, 4 * reach, cv2.BORDER_CONSTANT)
    top, left = max(y, 0), max(x, 0)
    canvas = picture[top : y + h + 4 * reach, left : x + w + 4 * reach]
    part = thing[top - y :, left - x :][: canvas.shape[0], : canvas.shape[1]].astype(np.float32)
    opacity = part[..., 3:] / 255
    if (thing[..., 3] > 127).sum() * 0.6 > (opacity > 0.5).sum():
        return None
    if shadow:
        dark = cv2.GaussianBlur(np.roll(opacity[..., 0], (reach, reach), (0, 1)), (0, 0), reach)
        canvas *= 1 - shadow * dark[..., None]
    canvas += opacity * (part[..., :3] - canvas)
    seen_y, seen_x = np.nonzero(opacity[..., 0] > 0.5)
    corners = [seen_x.min(), seen_y.min(), seen_x.max() + 1, seen_y.max() + 1]
    return np.array(corners, np.float32) + np.float32([left, top, left, top])


def lit(thing: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Under another light: brightness, contrast and a cast of colour."""
    colours = (thing[..., :3] - 128.0) * rng.uniform(0.7, 1.25) + 128 + rng.uniform(-30, 30)
    colours = np.clip(colours * rng.uniform(0.88, 1.12, 3), 0, 255)
    return np.dstack([colours, thing[..., 3]]).astype(np.uint8)


def ground(rng: np.random.Generator, width: int, height: int) -> np.ndarray:
    """A piece of a photograph, or a shade, in some colour: float32 [h, w, 3]."""
    if rng.random() < 0.2:
        return cv2.resize(rng.uniform(20, 235, (2, 2, 3)).astype(np.float32), (width, height))
    source = grounds()[int(rng.integers(len(grounds())))]
    h, w = source.shape[:2]
    share = rng.uniform(0.35, 1)
    ph, pw = int(h * share), int(w * share)
    y, x = int(rng.integers(h - ph + 1)), int(rng.integers(w - pw + 1))
    piece = cv2.resize(source[y : y + ph, x : x + pw], (width, height), interpolation=cv2.INTER_AREA).astype(
        np.float32
    )
    return np.clip(piece * rng.uniform(0.55, 1.35, 3) * rng.uniform(0.6, 1.2) + rng.uniform(-15, 25), 0, 255)


def clutter(picture: np.ndarray, rng: np.random.Generator) -> None:
    """Round and square pieces of other grounds: not everything that is stuck on is a thing."""
    height, width = picture.shape[:2]
    for _ in range(int(rng.integers(0, 5))):
        w, h = (int(n) for n in rng.integers(14, max(16, width // 3), 2))
        x, y = int(rng.integers(width - w)), int(rng.integers(max(1, height - h)))
        piece = np.dstack([ground(rng, w, h), np.full((h, w), 255.0)]).astype(np.uint8)
        if rng.random() < 0.5:
            piece[..., 3] = cv2.ellipse(
                np.zeros((h, w), np.uint8), (w // 2, h // 2), (w // 2, h // 2), 0, 0, 360, 255, -1
            )
        place(picture, warp(piece, h, rng.uniform(0, 180), False), x, y, 0)


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Shared area as a share of the smaller box."""
    shared = max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))
    return shared / min((a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1]))


def compose(rng: np.random.Generator, width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """A scene, uint8 RGB [height, width, 3], and its boxes float32 [n, 5]: class, x1, y1, x2, y2 in pixels."""
    picture = ground(rng, width, height)
    if rng.random() < 0.4:  # a horizon
        line = int(height * rng.uniform(0.2, 0.7))
        picture[:line] = ground(rng, width, line)
    clutter(picture, rng)
    boxes: list[np.ndarray] = []
    for _ in range(int(rng.integers(1, 9))):
        kind = int(rng.integers(len(LABELS)))
        choice = things()[kind]
        thing = choice[int(rng.integers(len(choice)))]
        least, most = RANGE.get(LABELS[kind], (0.13, 0.85))
        longest = np.exp(rng.uniform(np.log(least), np.log(most))) * min(width, height)
        turn = rng.uniform(-180, 180) if kind == 2 else rng.normal(0, 10)
        turned = lit(warp(thing, longest * thing.shape[0] / max(thing.shape), turn, rng.random() < 0.5), rng)
        h, w = turned.shape[:2]
        for _ in range(12):  # look for a free place
            x = int(rng.integers(-w // 5, max(1, width - w + w // 5)))
            y = int(rng.integers(-h // 5, max(1, height - h + h // 5)))
            guess = np.array([x, y, x + w, y + h])
            if all(overlap(guess, box[1:]) < 0.25 for box in boxes):
                seen = place(picture, turned, x, y, rng.uniform(0, 0.6) if rng.random() < 0.6 else 0)
                if seen is not None:
                    boxes.append(np.array([kind, *seen], np.float32))
                break
    if rng.random() < 0.25:
        picture = cv2.GaussianBlur(picture, (0, 0), rng.uniform(0.3, 1.2))
    light = cv2.resize(rng.uniform(0.75, 1.2, (2, 2, 1)).astype(np.float32), (width, height))
    picture = picture * light[..., None] + rng.standard_normal(picture.shape, np.float32) * np.float32(
        rng.uniform(0, 7)
    )
    return np.clip(picture, 0, 255).astype(np.uint8), np.array(boxes, np.float32).reshape(-1, 5)


def letterboxed(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """A scene as the network gets it: size x size, some of them letterboxed."""
    if rng.random() < 0.6:
        return compose(rng, size, size)
    short = int(size * rng.uniform(0.55, 0.95))
    width, height = (size, short) if rng.random() < 0.8 else (short, size)
    picture, boxes = compose(rng, width, height)
    x, y = (size - width) // 2, (size - height) // 2
    boxes[:, 1:] += [x, y, x, y]
    sheet = np.full((size, size, 3), GREY, np.uint8)
    sheet[y : y + height, x : x + width] = picture
    return sheet, boxes


EXAMPLE = (
    ("shuttle", 0, 225, 462, 272, -3, False),
    ("rocket", 0, 190, 590, 204, 24, False),
    ("photographer", 0, 215, 345, 392, 0, False),
    ("cat", 0, 118, 560, 338, 5, False),
    ("coin", 3, 66, 352, 464, 20, False),
    ("coin", 7, 58, 432, 446, -60, False),
    ("astronaut", 0, 345, 135, 482, 0, False),
    ("cup", 0, 150, 548, 476, -5, False),
)
"""What is on the example picture: label, which of them, height, middle, lower edge, turn in degrees, mirrored."""


def example(time: float = 0) -> np.ndarray:
    """The example picture, RGB [480, 640, 3]: gravel under the stars. Things sway and the sky goes by with the seconds."""
    width, height, horizon = 640, 480, 215
    picture = np.empty((height, width, 3), np.float32)
    sky = photograph("hubble_deep_field")[300 : 300 + horizon, 40 + int(12 * time) :][:, :width]
    picture[:horizon] = sky * 1.2 + np.float32([4, 6, 16])
    gravel = cv2.GaussianBlur(photograph("gravel"), (0, 0), 2)
    near_and_far = np.float32([[0, 511], [511, 511], [511, 0], [0, 0]])
    # seen from above eye level: narrower far away
    floor = np.float32([[-500, 300], [1140, 300], [660, 0], [-20, 0]])
    matrix = cv2.getPerspectiveTransform(near_and_far, floor)
    soil = cv2.warpPerspective(gravel, matrix, (width, height - horizon), flags=cv2.INTER_AREA).astype(
        np.float32
    )
    shade = np.linspace(0.5, 1.0, height - horizon, dtype=np.float32)[:, None, None]
    picture[horizon:] = ((soil - 110) * 0.55 + 125) * shade * np.float32([1.0, 0.95, 0.88])
    for n, (label, which, tall, middle, low, turn, flip) in enumerate(EXAMPLE):
        sway = np.sin(0.9 * time + n) - np.sin(n)
        thing = warp(things()[LABELS.index(label)][which], tall, turn + 6 * sway, flip)
        x, y = middle + 34 * sway - thing.shape[1] / 2, low - thing.shape[0]
        place(picture, thing, round(x), round(y), 0.55 if y + thing.shape[0] > horizon + 40 else 0)
    return np.clip(picture, 0, 255).astype(np.uint8)


def dataset(folder: Path) -> None:
    """Scenes as pictures, and what is in them in COCO's form."""
    images, annotations = [], []
    for n in range(200):
        picture, truth = letterboxed(np.random.default_rng(HELD_OUT + n), SIZE)
        cv2.imwrite(str(folder / f"{n:03}.png"), picture[..., ::-1])
        images.append({"id": n + 1, "file_name": f"{n:03}.png", "width": SIZE, "height": SIZE})
        for kind, x1, y1, x2, y2 in truth.tolist():
            box = [x1, y1, x2 - x1, y2 - y1]
            row = {"id": len(annotations) + 1, "image_id": n + 1, "category_id": int(kind) + 1, "bbox": box}
            annotations.append({**row, "area": box[2] * box[3], "iscrowd": 0})
    categories = [{"id": n + 1, "name": label} for n, label in enumerate(LABELS)]
    parts = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "instances.json").write_text(json.dumps(parts), encoding="utf-8")


def calibration(folder: Path) -> None:
    """Scenes as the converter reads them."""
    for n in range(60):
        picture, _ = letterboxed(np.random.default_rng(CALIBRATION + n), SIZE)
        np.save(folder / f"{n}.npy", picture.transpose(2, 0, 1)[None])


def main() -> None:
    path = sys.argv[1]
    if path in ("--dataset", "--calibration"):
        folder = Path(sys.argv[2])
        folder.mkdir(exist_ok=True)
        (dataset if path == "--dataset" else calibration)(folder)
        return
    if path.endswith(".avi"):
        film = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*"MJPG"), 25, (640, 480))
        for frame in range(125):
            film.write(cv2.cvtColor(example(frame / 25), cv2.COLOR_RGB2BGR))
        film.release()
        return
    seed = sys.argv[2:]
    picture = compose(np.random.default_rng(int(seed[0])), 640, 480)[0] if seed else example()
    cv2.imwrite(path, cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 92])


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
