"""Sound files of any kind: WAV, and by the package ``soundfile`` (extra ``sound``) FLAC, MP3 and Ogg, both ways."""

from __future__ import annotations

import io
from types import ModuleType

import numpy as np

from rknnlite.errors import InputInvalid
from rknnlite.extras import EXTRAS

from .resampling import resampled
from .sound import FASTEST, MOST_CHANNELS, MOST_SECONDS, REMEDY, SLOWEST, Sound, kind_of, read_wav

__all__ = ["MEDIA", "read_sound", "sound_file"]

_READ = {"FLAC": "FLAC", "MP3": "MP3", "Ogg": "OGG"}
"""What libsndfile may look into, by what the first bytes say; nothing else is shown to it."""
_WRITTEN = {"mp3": ("MP3", "MPEG_LAYER_III"), "flac": ("FLAC", "PCM_16"), "opus": ("OGG", "OPUS")}
MEDIA = {"mp3": "audio/mpeg", "flac": "audio/flac", "opus": "audio/ogg"}
"""Formats of ``sound_file``."""
_OPUS_RATE = 24_000
_MOST_SAMPLES = 1 << 27
"""Of one channel: 46 minutes at 48 kHz, half a gigabyte."""
_BLOCK = 1 << 16


def read_sound(data: bytes) -> Sound:
    """The sound of a file; channels are averaged. Raises InputInvalid as ``read_wav`` does, and for want of ``soundfile``."""
    kind = kind_of(data)
    if kind not in _READ:
        return read_wav(data)
    package = _soundfile(kind, _READ[kind])
    try:
        with package.SoundFile(io.BytesIO(data)) as file:
            rate, channels = int(file.samplerate), int(file.channels)
            if file.format != _READ[kind]:
                raise InputInvalid(f"the sound is no {kind} file, though it begins as one")
            if not SLOWEST <= rate <= FASTEST or not 0 < channels <= MOST_CHANNELS:
                raise InputInvalid(f"the {kind} file has {channels} channels of {rate} samples per second")
            most = min(_MOST_SAMPLES, MOST_SECONDS * rate)
            blocks, count = [], 0
            while count <= most:
                block = file.read(_BLOCK, "float32", always_2d=True)
                if not len(block):
                    break
                blocks.append(block.mean(1, dtype=np.float32))
                count += len(block)
    except (package.SoundFileError, RuntimeError, ValueError) as error:
        raise InputInvalid(f"the {kind} file is damaged: {error}") from None
    if count > most:
        raise InputInvalid(f"the {kind} file is longer than {most // rate} s; cut it into parts, or {REMEDY}")
    samples = np.concatenate([np.zeros(0, np.float32), *blocks])
    if not np.isfinite(samples).all():
        raise InputInvalid(f"the {kind} file holds samples that are no finite numbers")
    return Sound(samples, rate)


def sound_file(sound: Sound, form: str) -> bytes:
    """A file of ``MEDIA``. Raises InputInvalid for want of ``soundfile``, or where it cannot."""
    kind, inside = _WRITTEN[form]
    package = _soundfile(form, kind)
    sound = resampled(sound, _OPUS_RATE) if form == "opus" else sound
    file = io.BytesIO()
    try:
        package.write(file, np.clip(sound.samples, -1, 1), sound.rate, inside, format=kind)
    except (package.SoundFileError, RuntimeError, ValueError) as error:
        raise InputInvalid(f"{form} cannot be written: {error}") from None
    return file.getvalue()


def _soundfile(kind: str, needed: str) -> ModuleType:
    try:
        import soundfile
    except (ImportError, OSError) as error:  # OSError: without libsndfile
        raise InputInvalid(
            f"{kind} needs the package soundfile ({error}): {EXTRAS['sound'].remedy}; or {REMEDY}"
        ) from None
    if needed not in soundfile.available_formats():
        raise InputInvalid(f"{kind} needs libsndfile 1.1 or newer; {REMEDY}")
    module: ModuleType = soundfile
    return module
