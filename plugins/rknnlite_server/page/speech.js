// Sound to text, and text to sound. Sound is decoded here and sent as WAV with 16000 samples a second, one channel.
import {ask, events} from "./api.js"
import {$, choices, files, make} from "./dom.js"

const RATE = 16000
let recorder = null

export function models(list) {
  const listeners = list.filter(card => card.meta?.task === "transcription").map(card => card.id)
  const speakers = list.filter(card => card.meta?.task === "speech").map(card => card.id)
  $("transcribe").hidden = !listeners.length
  $("speak").hidden = !speakers.length
  choices($("listener"), listeners)
  choices($("speaker"), speakers)
  return Boolean(listeners.length || speakers.length)
}

/** A sound file of any kind that the browser knows as the bytes of a WAV. */
async function wav(file) {
  let sound
  try {
    sound = await new OfflineAudioContext(1, 1, RATE).decodeAudioData(await file.arrayBuffer())
  } catch {
    throw new Error(`${file.name || "this"} is no sound that this browser can read`)
  }
  const view = new DataView(new ArrayBuffer(44 + 2 * sound.length))
  const word = (at, text) => [...text].forEach((char, index) => view.setUint8(at + index, char.charCodeAt(0)))
  word(0, "RIFF"); view.setUint32(4, 36 + 2 * sound.length, true); word(8, "WAVEfmt ")
  view.setUint32(16, 16, true); view.setUint16(20, 1, true); view.setUint16(22, 1, true)
  view.setUint32(24, RATE, true); view.setUint32(28, 2 * RATE, true); view.setUint16(32, 2, true); view.setUint16(34, 16, true)
  word(36, "data"); view.setUint32(40, 2 * sound.length, true)
  const channels = Array.from({length: sound.numberOfChannels}, (_, index) => sound.getChannelData(index))
  for (let index = 0; index < sound.length; index++) {
    const value = channels.reduce((total, channel) => total + channel[index], 0) / channels.length
    view.setInt16(44 + 2 * index, Math.round(32767 * Math.max(-1, Math.min(1, value))), true)
  }
  return {blob: new Blob([view], {type: "audio/wav"}), seconds: sound.length / RATE}
}

async function transcribe(file) {
  $("speech-error").textContent = ""
  $("transcript").hidden = true
  $("sound-note").textContent = "Reading the sound…"
  try {
    const {blob, seconds} = await wav(file)
    $("sound-note").textContent = `${seconds.toFixed(1)} s of sound are transcribed…`
    const form = new FormData()
    form.append("file", blob, "sound.wav")
    form.append("model", $("listener").value)
    form.append("stream", "true")
    if ($("language").value.trim()) form.append("language", $("language").value.trim())
    const start = performance.now()
    $("transcript").textContent = ""
    for await (const event of events(await ask("v1/audio/transcriptions", {body: form}))) {
      if (event.type === "transcript.text.delta") $("transcript").append(event.delta)
      if (event.type === "transcript.text.done") $("transcript").textContent = event.text.trim()
      $("transcript").hidden = false
    }
    $("sound-note").textContent = `${seconds.toFixed(1)} s of sound in ${((performance.now() - start) / 1000).toFixed(1)} s.`
  } catch (error) {
    $("sound-note").textContent = ""
    $("speech-error").textContent = error.message
  }
}

async function record() {
  if (recorder) return recorder.stop()
  $("speech-error").textContent = ""
  try {
    const stream = await navigator.mediaDevices.getUserMedia({audio: true})
    const parts = []
    recorder = new MediaRecorder(stream)
    recorder.ondataavailable = event => parts.push(event.data)
    recorder.onstop = () => {
      for (const track of stream.getTracks()) track.stop()
      const {mimeType} = recorder
      recorder = null
      $("record").textContent = "Record"
      transcribe(new File(parts, "recording", {type: mimeType}))
    }
    recorder.start()
    $("record").textContent = "Stop and transcribe"
  } catch (error) {
    $("speech-error").textContent = `nothing can be recorded: ${error.message}`
  }
}

async function speak(event) {
  event.preventDefault()
  $("speech-error").textContent = ""
  const voice = $("voice")
  try {
    const body = {model: $("speaker").value, input: $("speak-text").value, response_format: "wav"}
    const sound = await (await ask("v1/audio/speech", {body})).blob()
    if (voice.src) URL.revokeObjectURL(voice.src)
    voice.src = URL.createObjectURL(sound)
    voice.hidden = false
    await voice.play().catch(() => {})
  } catch (error) {
    $("speech-error").textContent = error.message
  }
}

export function start() {
  $("sound-drop").addEventListener("click", () => $("sound-file").click())
  files($("view-speech"), $("sound-file"), ([file]) => transcribe(file))
  $("record").hidden = !navigator.mediaDevices?.getUserMedia // browsers hide it from pages without https
  $("record").addEventListener("click", record)
  $("speak").addEventListener("submit", speak)
}
