// Search from the file system: browsers start no Worker there, so its script runs in a hidden frame instead.
// The script finds its own folder by the name IFrameWorker.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      const page = this.inside.document
      page.open()
      page.write("<!doctype html><body></body>")
      page.close()
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = page.createElement("script")
      script.src = url
      this.ready = new Promise((resolve, reject) => {
        script.onload = resolve
        script.onerror = () => reject(new Error(`cannot load ${url}`))
      })
      page.body.append(script)
      this.frame = frame
    }
    postMessage(data) {
      this.ready = this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {
      this.frame.remove()
    }
  }
  window.Worker = window.IFrameWorker
}
