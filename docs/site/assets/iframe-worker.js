// Browsers refuse to start a worker from a page on disk. A hidden frame runs its script instead, so that search works there, too.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(address) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => setTimeout(() => this.onmessage?.(new MessageEvent("message", { data })));
      const script = inner.document.createElement("script");
      this.started = new Promise((resolve) => { script.onload = resolve; });
      script.src = new URL(address, document.baseURI);
      inner.document.body.append(script);
    }

    postMessage(data) {
      const inner = this.frame.contentWindow;
      this.started.then(() => setTimeout(() => inner.onmessage(new MessageEvent("message", { data }))));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
