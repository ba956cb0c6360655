"""Texts of many scripts with what is hard for tokenizers between their words, made without a file."""

from __future__ import annotations

import random

__all__ = ["SCRIPTS", "corpus", "strings"]

SCRIPTS = {
    "latin": "The quick brown fox's tail doesn't jump over lazy dogs they'll see hello world",
    "german": "Straße Übermut größere Äpfel heißen Fuß Mädchen",
    "vietnamese": "Tiếng Việt rất đẹp những người bạn được yêu",
    "turkish": "İstanbul ılık çay güneş ığdır şeker",
    "greek": "Ελληνικά κείμενα ΣΟΦΟΣ λόγος ὀρθός",
    "cyrillic": "Привет мир ёлка съешь булочек Україна їжак",
    "hebrew": "שלום עולם טקסט בְּרֵאשִׁית",
    "arabic": "مرحبا بالعالم النص ٱلسَّلَامُ ١٢٣",
    "persian": "سلام دنیا می‌روم کتاب‌ها ۴۵۶",
    "devanagari": "नमस्ते दुनिया हिन्दी क्षत्रिय १२३",
    "bengali": "বাংলা ভাষা স্বাগতম ৪৫",
    "tamil": "தமிழ் மொழி வணக்கம் கோ",
    "telugu": "తెలుగు భాష స్వాగతం",
    "thai": "ภาษาไทยสวัสดีชาวโลก น้ำ ๑๒๓",
    "lao": "ພາສາລາວ ສະບາຍດີ ນ້ຳ",
    "georgian": "ქართული ენა გამარჯობა",
    "armenian": "Հայերեն լեզու բարև եւ",
    "amharic": "ሰላም ዓለም አማርኛ ፩፪፫",
    "korean": "안녕하세요 세계 한국어 ᄒ\u1161\u11ab",
    "japanese": "こんにちは世界 カタカナ ｶﾞｷﾞ ㍿ 日本語か\u3099",
    "chinese": "你好世界 中文文本 𠮷野家 㐀",
    "khmer": "ភាសាខ្មែរ សួស្តី",
    "tibetan": "བོད་སྐད་ བཀྲ་ཤིས",
    "cherokee": "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ",
}
"""Some words of each script."""
_ODD = [
    "👨‍👩‍👧‍👦",
    "🏳️‍🌈",
    "👍🏽",
    "🇩🇪🇫🇷",
    "☕️",
    "e\u0301a\u0308",
    "ﬁ ﬂ ½ ² ① Ⅷ ℌ",
    "①\u0301",
    "²\u0301",
    "...",
    "?!",
    " ' ",
    "n't",
    "'S",
    "\t",
    "\n",
    "\r\n",
    "\n\n  ",
    "   ",
    "\u00a0",
    "\u3000",
    "\u200b",
    "\u200d",
    "\ufeff",
    "\x00",
    "\x07",
    "\x1c",
    "\x7f",
    "\x85",
    "\ufffd",
    "1234567",
    "3.14",
    "-7,5e10",
    "0x1F",
    "¹²³",
    "a_b",
    "def f(x):\n    return x",
    "https://a.b/c?d=e&f",
    "#$%&*",
    "▁",
    "▁▁",
    "<0x0A>",
    "<s>",
    "</s>",
    "<unk>",
    "[MASK]",
    "[CLS]",
    "<mask>",
    "<|im_start|>",
    "<|im_end|>",
    "<tool>",
    "Ġ",
    "\u0600x",
    "x\uff9e",
]
_BROKEN = ["é中😀".encode()[i:j].decode("utf-8", "replace") for i in range(4) for j in range(4, 9)]


def strings(count: int = 2000, seed: int = 5) -> list[str]:
    """Texts of up to 40 parts, most of one script each."""
    dice = random.Random(seed)
    words = [text.split(" ") for text in SCRIPTS.values()]
    made = [""]
    while len(made) < count:
        own = dice.choice(words)
        parts = []
        for _ in range(dice.randint(1, 40)):
            kind = dice.random()
            if kind < 0.7:
                parts.append(dice.choice(own))
            elif kind < 0.9:
                parts.append(dice.choice(_ODD))
            else:
                parts.append(dice.choice(_BROKEN) if kind < 0.93 else dice.choice(dice.choice(words)))
        made.append("".join(part + dice.choice((" ", " ", "", "  ")) for part in parts))
    return made


def corpus() -> list[str]:
    """What small tokenizers are trained with."""
    return [*SCRIPTS.values(), *strings(300, seed=1)]
